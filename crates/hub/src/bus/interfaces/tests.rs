//! Tables of machines and what may be listened on there.

use super::*;
use crate::config::Config;

fn bus(listen: &[&str]) -> Bus {
    let mut bus = Config::for_project("/project".into()).bus;
    bus.listen = listen.iter().map(|text| text.parse().unwrap()).collect();
    bus
}

/// A `!` after the name marks an interface that leads out.
fn around(interfaces: &[(&str, &str)], in_container: bool) -> Surroundings {
    let interface = |(name, address): &(&str, &str)| Interface {
        name: name.trim_end_matches('!').to_owned(),
        address: address.parse().unwrap(),
        leads_out: name.ends_with('!'),
    };
    Surroundings {
        interfaces: interfaces.iter().map(interface).collect(),
        in_container,
    }
}

fn host() -> Surroundings {
    around(
        &[
            ("lo", "127.0.0.1"),
            ("lo", "::1"),
            ("eth0!", "192.168.1.20"),
            ("eth0!", "2001:db8::20"),
            ("eth0!", "fe80::20"),
            ("wlan0!", "192.168.7.3"),
            ("docker0", "172.17.0.1"),
            ("docker0", "fe80::42"),
            ("docker0", "fd00:17::1"),
            ("br-0123456789ab", "172.18.0.1"),
            ("br-lan!", "10.0.0.1"),
            ("virbr0", "192.168.122.1"),
        ],
        false,
    )
}

fn shown(chosen: &Chosen) -> String {
    let listen: Vec<String> = chosen.listen.iter().map(ToString::to_string).collect();
    listen.join(" ")
}

// agentbus.security.bind_docker_only
#[test]
fn an_unspecified_address_means_loopback_and_container_networks_never_the_lan() {
    let container = || {
        around(
            &[
                ("lo", "127.0.0.1"),
                ("eth0", "172.18.0.5"),
                ("eth0", "fd00::5"),
            ],
            true,
        )
    };
    let cases = [
        (host(), "0.0.0.0:1", "127.0.0.1:1 172.17.0.1:1 172.18.0.1:1"),
        (
            host(),
            "[::]:1",
            "127.0.0.1:1 [::1]:1 172.17.0.1:1 [fd00:17::1]:1 172.18.0.1:1",
        ),
        (container(), "0.0.0.0:1", "127.0.0.1:1 172.18.0.5:1"),
        (
            container(),
            "[::]:1",
            "127.0.0.1:1 172.18.0.5:1 [fd00::5]:1",
        ),
        // A container on its host's network, one with a card or a share of one, and a machine that hides its interfaces.
        (
            Surroundings {
                in_container: true,
                ..host()
            },
            "0.0.0.0:1",
            "127.0.0.1:1 172.17.0.1:1 172.18.0.1:1",
        ),
        (
            around(&[("eth0!", "192.168.1.9")], true),
            "0.0.0.0:1",
            "127.0.0.1:1",
        ),
        (
            around(&[("eth0", "172.18.0.5")], false),
            "0.0.0.0:1",
            "127.0.0.1:1",
        ),
        (Surroundings::default(), "0.0.0.0:1", "127.0.0.1:1"),
        (
            around(&[("docker0", "169.254.3.4")], false),
            "0.0.0.0:1",
            "127.0.0.1:1",
        ),
    ];
    for (around, asked, expected) in cases {
        let chosen = choose(&bus(&[asked]), &around).unwrap();
        assert_eq!(shown(&chosen), expected, "{asked} {around:?}");
    }
}

#[test]
fn what_an_unspecified_address_leaves_out_is_told() {
    let chosen = choose(&bus(&["0.0.0.0:1"]), &host()).unwrap();
    let names: Vec<&str> = chosen
        .left_out
        .iter()
        .map(|left| left.name.as_str())
        .collect();
    assert_eq!(names, ["eth0", "wlan0", "br-lan", "virbr0"]);
}

#[test]
fn a_named_interface_is_a_container_network_by_the_operators_word() {
    let mut named = bus(&["0.0.0.0:1", "192.168.122.1:2"]);
    named.interfaces = vec!["virbr0".to_owned()];
    let chosen = choose(&named, &host()).unwrap();
    assert!(
        shown(&chosen).ends_with("192.168.122.1:1 192.168.122.1:2"),
        "{chosen:?}"
    );
    named.interfaces = vec!["virbr".to_owned()];
    assert!(choose(&named, &host()).is_err());
}

// agentbus.security.mtls_required
#[test]
fn another_address_is_refused_with_a_sentence_unless_there_are_certificates() {
    for asked in [
        "127.0.0.1:1",
        "127.9.9.9:1",
        "[::1]:1",
        "[::ffff:127.0.0.1]:1",
        "172.17.0.1:1",
    ] {
        let chosen = choose(&bus(&[asked]), &host()).unwrap();
        assert_eq!(shown(&chosen), asked);
    }
    let strangers = [
        "192.168.1.20:1",
        "[2001:db8::20]:1",
        "10.0.0.1:1",
        "8.8.8.8:1",
        "[::ffff:192.168.1.20]:1",
    ];
    for asked in strangers {
        let mut bus = bus(&["127.0.0.1:1", asked]);
        let said = choose(&bus, &host()).unwrap_err().to_string();
        for word in [asked, "mTLS", "127.0.0.1", "agent_bus.interfaces"] {
            assert!(said.contains(word), "{said}");
        }
        bus.security = Security::MutualTls;
        assert_eq!(
            shown(&choose(&bus, &host()).unwrap()),
            format!("127.0.0.1:1 {asked}")
        );
    }
    let mut open = bus(&["0.0.0.0:1"]);
    open.security = Security::MutualTls;
    assert_eq!(shown(&choose(&open, &host()).unwrap()), "0.0.0.0:1");
}

#[test]
fn no_address_is_listened_on_twice() {
    let chosen = choose(&bus(&["127.0.0.1:1", "0.0.0.0:1", "172.17.0.1:1"]), &host()).unwrap();
    assert_eq!(shown(&chosen), "127.0.0.1:1 172.17.0.1:1 172.18.0.1:1");
}

#[test]
fn a_container_is_known_by_its_marks() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    assert!(!in_container(root.path()));
    fs::create_dir_all(at("proc/1")).unwrap();
    for (groups, inside) in [
        ("0::/init.scope\n", false),
        ("0::/\n", false),
        ("1:name=systemd:/docker/0123\n", true),
        ("0::/kubepods.slice/pod1/x\n", true),
    ] {
        fs::write(at("proc/1/cgroup"), groups).unwrap();
        assert_eq!(in_container(root.path()), inside, "{groups}");
    }
    fs::write(at("proc/1/cgroup"), "0::/\n").unwrap();
    fs::write(at(".dockerenv"), "").unwrap();
    assert!(in_container(root.path()));
}

#[cfg(target_os = "linux")]
#[test]
fn hardware_tunnels_and_shares_of_a_card_lead_out_also_below_a_bridge() {
    let classes = tempfile::tempdir().unwrap();
    let make = |path: &str| fs::create_dir_all(classes.path().join(path)).unwrap();
    let about = |name: &str, text: &str| {
        make(name);
        fs::write(classes.path().join(name).join("uevent"), text).unwrap();
    };
    make("eth0/device");
    about("veth1", "INTERFACE=veth1\nIFINDEX=7\n");
    about("macvlan0", "DEVTYPE=macvlan\nINTERFACE=macvlan0\n");
    make("tun0/tun_flags");
    about("docker0", "DEVTYPE=bridge\nINTERFACE=docker0\n");
    make("docker0/lower_veth1");
    about("br-lan", "DEVTYPE=bridge\n");
    make("br-lan/lower_veth1");
    make("br-lan/lower_eth0");
    make("loop/lower_loop");
    for (name, leads) in [
        ("eth0", true),
        ("veth1", false),
        ("macvlan0", true),
        ("tun0", true),
        ("docker0", false),
        ("br-lan", true),
        ("loop", true),
        ("unheard-of", false),
    ] {
        assert_eq!(linux::leads_out(classes.path(), name, 0), leads, "{name}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn this_machine_is_listed_with_its_loopback_address() {
    let around = Surroundings::look();
    let loopback =
        |interface: &Interface| interface.name == "lo" && interface.address.is_loopback();
    assert!(around.interfaces.iter().any(loopback), "{around:?}");
    // Whatever is chosen here can be bound.
    let chosen = choose(&bus(&["0.0.0.0:0"]), &around).unwrap();
    for address in chosen.listen {
        std::net::TcpListener::bind(address).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_cut_or_senseless_answer_of_the_kernel_is_read_as_far_as_it_goes() {
    let mut message = Vec::new();
    message.extend(40_u32.to_ne_bytes());
    message.extend(20_u16.to_ne_bytes());
    message.extend([0; 10]);
    message.extend([2, 16, 0, 0]);
    message.extend(7_u32.to_ne_bytes());
    for (kind, last) in [(1_u16, 9), (2_u16, 1)] {
        message.extend(8_u16.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend([172, 17, 0, last]);
    }
    let read = |bytes: &[u8]| {
        let mut found = Vec::new();
        linux::take_in(bytes, &mut found).map(|more| (more, found))
    };
    let own = (7, "172.17.0.1".parse().unwrap());
    assert_eq!(read(&message).unwrap(), (true, vec![own]));
    for cut in 0..message.len() {
        assert_eq!(read(&message[..cut]).unwrap(), (true, Vec::new()), "{cut}");
    }
    let done = [&16_u32.to_ne_bytes()[..], &3_u16.to_ne_bytes(), &[0; 10]].concat();
    assert_eq!(read(&done).unwrap(), (false, Vec::new()));
    let refused = [&36_u32.to_ne_bytes()[..], &2_u16.to_ne_bytes(), &[1; 30]].concat();
    assert!(read(&refused).is_err());
    // A length of nothing must not be read forever.
    assert_eq!(read(&[0; 64]).unwrap(), (true, Vec::new()));
    for byte in 0..message.len() {
        for value in [0, 1, 127, 255] {
            let mut bent = message.clone();
            bent[byte] = value;
            let _ = read(&bent);
        }
    }
}

#[test]
fn interfaces_that_are_not_there_are_named() {
    let mut bus = bus(&["0.0.0.0:8731"]);
    let unknown = |bus: &Bus| choose(bus, &host()).unwrap().unknown;
    bus.interfaces = vec!["wlan0".to_owned()];
    assert_eq!(unknown(&bus), None);
    bus.interfaces = vec!["wlan0".to_owned(), "wlan9".to_owned(), "eth7".to_owned()];
    let said = unknown(&bus).unwrap();
    assert!(said.contains("no interface wlan9, eth7 with"), "{said}");
    assert!(
        said.ends_with("it has lo, eth0, wlan0, docker0, br-0123456789ab, br-lan, virbr0"),
        "{said}"
    );
    assert_eq!(
        choose(&bus, &Surroundings::default()).unwrap().unknown,
        None
    );
}
