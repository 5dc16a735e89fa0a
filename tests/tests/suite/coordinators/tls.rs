//! The way to the database under TLS, checked as `sslmode` says.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use switchboard_test_cluster::{Cluster, Tls};
use switchboard_tests::{Project, with_parameter};
use tempfile::TempDir;

#[test]
fn with_verify_full_the_right_certificate_is_taken_and_any_other_is_refused_with_a_sentence() {
    let made = Made::new();
    let cluster = match Cluster::with_tls(&made.tls, &[]) {
        Ok(cluster) => cluster,
        Err(missing) => return missing.skip("TLS to the database"),
    };
    let database = cluster.create_database();
    let url = |host: &str, root: &PathBuf| {
        format!(
            "postgres://switchboard@{host}:{}/{}?sslmode=verify-full&sslrootcert={}",
            cluster.port(),
            database.name,
            root.display()
        )
    };
    let project = Project::on(url("localhost", &made.root));
    let hub = project.start();
    hub.client().create("under-tls");
    let open = database.sql(
        "SELECT count(*) FROM pg_stat_activity LEFT JOIN pg_stat_ssl USING (pid)
         WHERE application_name = 'switchboard' AND datname = current_database() AND ssl IS NOT TRUE",
    );
    assert_eq!(open, "0", "connections without TLS");
    hub.stop();

    for (url, word) in [
        (url("127.0.0.1", &made.root), "127.0.0.1"),
        (url("localhost", &made.other_root), "certificate"),
    ] {
        let ended = Project::on(&url).start_in_vain();
        assert!(!ended.status.success());
        let said = &ended.stderr;
        assert!(
            said.contains(word) && said.contains("certificate"),
            "{url}: {said}"
        );
    }
}

#[test]
fn a_server_without_tls_is_refused_where_tls_is_required() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(missing) => return missing.skip("TLS that the database does not offer"),
    };
    let url = with_parameter(&cluster.url("postgres"), "sslmode=require");
    let ended = Project::on(url).start_in_vain();
    assert!(ended.stderr.contains("TLS"), "{}", ended.stderr);
}

/// A certificate for `localhost`, who signed it, and somebody who did not.
struct Made {
    _folder: TempDir,
    tls: Tls,
    root: PathBuf,
    other_root: PathBuf,
}

impl Made {
    fn new() -> Made {
        let folder = TempDir::new().expect("a temporary directory can be made");
        let keep = |name: &str, text: String| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file can be written");
            path
        };
        let (root, other) = (authority(), authority());
        let key = KeyPair::generate().expect("a key can be made");
        let names = CertificateParams::new(["localhost".to_owned()]).expect("it is a name");
        let certificate = names.signed_by(&key, &root).expect("it can be signed");
        Made {
            tls: Tls {
                certificate: keep("server.crt", certificate.pem()),
                key: keep("server.key", key.serialize_pem()),
            },
            root: keep("root.crt", root.pem()),
            other_root: keep("other.crt", other.pem()),
            _folder: folder,
        }
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).expect("no names are fine");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key can be made");
    CertifiedIssuer::self_signed(params, key).expect("it signs itself")
}
