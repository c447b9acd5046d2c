//! A process whose surroundings are not as usual: nobody reads its messages, or a proxy is set.

use std::fs::File;

use super::{kill::task, server::Server, *};

#[test]
fn messages_that_cannot_be_written_cost_no_row() {
    let server = Server::start();
    let rig = Rig::new(&server.url);
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert!(task(&rig, 0, 20).stderr(full).status().unwrap().success());
    assert_rows(&parsed(&server.run().history), 20);
}

#[test]
fn requests_to_this_machine_pass_no_proxy() {
    let (server, proxy) = (Server::start(), Server::start());
    let rig = Rig::new(&server.url);
    let mut task = task(&rig, 0, 20);
    task.env_remove("no_proxy").env_remove("NO_PROXY").env("http_proxy", &proxy.url);
    assert!(task.status().unwrap().success());
    assert_eq!(proxy.state().requests, 0, "the key is in each request");
    assert_rows(&parsed(&server.run().history), 20);
}
