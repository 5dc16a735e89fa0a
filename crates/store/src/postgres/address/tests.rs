//! Addresses as libpq reads them.

use super::*;

/// Every server as `host:port`, and how the user, the database and the password are understood.
fn read(url: &str) -> String {
    let address = Address::parse_in(url, &Surroundings::default()).unwrap();
    let of = |server: &Config| {
        let password = server.get_password().unwrap_or_default();
        let password = String::from_utf8_lossy(password).into_owned();
        let (user, name) = (server.get_user(), server.get_dbname());
        let (user, name) = (user.unwrap_or_default(), name.unwrap_or_default());
        format!("{user}:{password}@{}:{}/{name}", host(server), port(server))
    };
    address.servers.iter().map(of).collect::<Vec<_>>().join(" ")
}

#[test]
fn addresses_are_read_as_libpq_reads_them() {
    #[rustfmt::skip]
    let cases = [
        ("postgres://u:p@db/l", "u:p@db:5432/l"),
        ("postgresql://u%40x:p%2F%3a%25@db:6000/l%20x", "u@x:p/:%@db:6000/l x"),
        ("postgres://u:p@ss@db", "u:p@ss@db:5432/"),
        ("postgres://[::1]:7,b,c:9/l", ":@::1:7/l :@b:5432/l :@c:9/l"),
        ("postgres:///l?host=/tmp/a,b&port=1,2&user=u", "u:@/tmp/a:1/l u:@b:2/l"),
        ("postgres://u@%2Ftmp%2Fa:5/l?password=a%26b", "u:a&b@/tmp/a:5/l"),
        ("postgres://u@:7/l?host=%2Ftmp", "u:@/tmp:7/l"),
        ("postgres://a,b/l?port=7&options=-c%20x=y@z", ":@a:7/l :@b:7/l"),
        ("postgres://a/l?dbname=m&user=v&sslmode=", "v:@a:5432/m"),
        ("postgres://?hostaddr=127.0.0.1,::1", ":@127.0.0.1:5432/ :@::1:5432/"),
    ];
    for (url, expected) in cases {
        assert_eq!(read(url), expected, "{url}");
    }
}

#[test]
fn defaults_hold_until_the_address_says_otherwise() {
    let seconds = Duration::from_secs;
    let parse = |url| Address::parse_in(url, &Surroundings::default()).unwrap();
    let plain = parse("postgres://a/l");
    let [server] = &plain.servers[..] else {
        panic!("one server")
    };
    assert_eq!(server.get_connect_timeout(), Some(&seconds(3)));
    assert_eq!(server.get_tcp_user_timeout(), Some(&seconds(5)));
    assert_eq!(server.get_keepalives_idle(), seconds(10));
    assert_eq!(server.get_keepalives_interval(), Some(seconds(3)));
    assert_eq!(server.get_keepalives_retries(), Some(3));
    assert_eq!(server.get_application_name(), Some("switchboard"));
    assert_eq!(server.get_target_session_attrs(), TargetSessionAttrs::Any);
    assert_eq!(server.get_ssl_mode(), SslMode::Prefer);
    assert_eq!((plain.pooled(), plain.notify()), (None, true));
    let said = parse(
        "postgres://a,/l?host=a,/tmp&sslmode=require&connect_timeout=7&tcp_user_timeout=1500&keepalives_idle=20\
         &keepalives_count=5&application_name=x&options=-c%20a=b&pooler=transaction&notify=off&keepalives=0",
    );
    let [server, socket] = &said.servers[..] else {
        panic!("two servers")
    };
    assert_eq!(server.get_connect_timeout(), Some(&seconds(7)));
    assert_eq!(
        server.get_tcp_user_timeout(),
        Some(&Duration::from_millis(1500))
    );
    assert_eq!(server.get_keepalives_idle(), seconds(20));
    assert_eq!(
        (server.get_keepalives_retries(), server.get_keepalives()),
        (Some(5), false)
    );
    assert_eq!(server.get_application_name(), Some("x"));
    assert_eq!(server.get_options(), Some("-c a=b"));
    assert_eq!(
        server.get_target_session_attrs(),
        TargetSessionAttrs::ReadWrite
    );
    assert_eq!(
        (server.get_ssl_mode(), socket.get_ssl_mode()),
        (SslMode::Require, SslMode::Disable)
    );
    assert_eq!((said.pooled(), said.notify()), (Some(true), false));
    assert_eq!(parse("postgres://a?pooler=none").pooled(), Some(false));
    let any = parse("postgres://a,b?target_session_attrs=any");
    assert_eq!(
        any.servers[0].get_target_session_attrs(),
        TargetSessionAttrs::Any
    );
}

#[test]
fn the_password_is_never_printed() {
    let told = "postgres://u@db/l?connect_timeout=7";
    for url in [
        "postgres://u:s3cr@db/l?connect_timeout=7",
        "postgres://u:%733cr@db/l?connect_timeout=7&pooler=none",
        "postgres://u@db/l?password=s3cr&connect_timeout=7",
        "postgres://u@db/l?pass%77ord=%733cr&connect_timeout=7&notify=on",
        "postgresql://u:x@s3cr@db/l?connect_timeout=7",
    ] {
        let address = Address::parse_in(url, &Surroundings::default()).unwrap();
        assert_eq!(
            (format!("{address}"), format!("{address:?}")),
            (told.into(), told.into())
        );
    }
    for url in [
        "postgres://u:s3cr",
        "postgres://u:a/s3cr@db/l",
        "postgres://u:1/s3cr@db/l",
        "postgres://u:1?s3cr=1@db/l",
        "postgres://u:s3cr?@db",
        "postgres://u:s3cr%@db",
        "postgres://u@db?password=a&s3cr",
        "postgres://u@db?sslpassword=s3cr",
        "mysql://u:s3cr@db/l",
        "u:s3cr@db/l",
    ] {
        let error = Address::parse_in(url, &Surroundings::default()).unwrap_err();
        assert!(!format!("{error}{error:?}").contains("s3cr"), "{error}");
    }
}

#[test]
fn a_mistake_is_named_together_with_what_is_expected() {
    #[rustfmt::skip]
    let cases = [
        ("db/l", "it must start with postgres:// or postgresql://"),
        ("postgres://a:x", "a port must be a number from 1 to 65535"),
        ("postgres://a:0", "a port must be a number from 1 to 65535"),
        ("postgres://[::1", "the host \"[::1\" must be like [::1]:5432"),
        ("postgres://a,b?port=1,2,3", "it has 3 ports for 2 hosts"),
        ("postgres://a?hostaddr=b", "hostaddr must be an IP address, not \"b\""),
        ("postgres://a?hostaddr=::1,::2", "hostaddr has 2 addresses for 1 hosts"),
        ("postgres://a?colour=1", "there is no parameter \"colour\""),
        ("postgres://a?keepalives=x", "keepalives must be 0 or 1, not \"x\""),
        ("postgres://a?tcp_user_timeout=x", "tcp_user_timeout must be a number of milliseconds, not \"x\""),
        ("postgres://a?pooler=yes", "pooler must be one of transaction, none, not \"yes\""),
        ("postgres://a?target_session_attrs=standby", "target_session_attrs must be one of any, read-write, primary, not \"standby\""),
        ("postgres://a/%4", "in the database name, '%' must begin a code from %01 to %FF; write '%' itself as %25"),
        ("postgres://%FF@a", "the user name is not UTF-8"),
        ("postgres://a/b@c", TORN),
        ("postgres://a?sslnegotiation=direct", "sslnegotiation=direct requires sslmode=require or stronger"),
        ("postgres://a?sslcert=/x", "sslcert requires sslkey"),
    ];
    for (url, sentence) in cases {
        let error = Address::parse_in(url, &Surroundings::default()).unwrap_err();
        let expected = format!("the address of the ledger cannot be used: {sentence}");
        assert_eq!(error.to_string(), expected, "{url}");
    }
    let hosts = |count| format!("postgres://{}", vec!["a"; count].join(","));
    let parse = |url: String| Address::parse_in(&url, &Surroundings::default());
    assert!(parse(hosts(SERVERS_MAX)).is_ok());
    assert!(parse(hosts(SERVERS_MAX + 1)).is_err());
}

#[test]
fn what_the_address_lacks_comes_from_the_surroundings() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let passfile = folder.path().join("pass");
    let lines =
        "# a comment\nb:5432:l:u:no\\\\t\\:me:\n*:7:l:who:\\*\n\\*:*:*:*:never\n*:*:*:u:last";
    std::fs::write(&passfile, lines).unwrap();
    let allow = |mode| std::fs::set_permissions(&passfile, std::fs::Permissions::from_mode(mode));
    let mut around = Surroundings {
        passfile: Some(passfile.clone()),
        user: Some("who".into()),
        ..Surroundings::default()
    };
    let kept = |around: &Surroundings, url| {
        let address = Address::parse_in(url, around).unwrap();
        let of = |server: &Config| {
            server
                .get_password()
                .map(|it| String::from_utf8_lossy(it).into_owned())
        };
        address
            .servers
            .iter()
            .map(of)
            .map(Option::unwrap_or_default)
            .collect::<Vec<_>>()
            .join(" ")
    };
    allow(0o600).unwrap();
    assert_eq!(kept(&around, "postgres://u@b,c/l"), "no\\t:me: last");
    assert_eq!(kept(&around, "postgres://x:7/l"), "*");
    assert_eq!(kept(&around, "postgres://x:8/l"), "");
    assert_eq!(kept(&around, "postgres://u:own@b/l"), "own");
    allow(0o640).unwrap();
    assert_eq!(kept(&around, "postgres://u@b/l"), "");
    around.password = Some("around".into());
    assert_eq!(kept(&around, "postgres://u@b/l"), "around");
    assert_eq!(kept(&around, "postgres://u:own@b/l"), "own");
}
