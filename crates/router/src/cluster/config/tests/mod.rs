mod class;
mod joins;

use super::words::Address;
use super::*;
use crate::linux::{Lookup, Wanted};
use lang::SourceMap;

fn mistakes(text: &str) -> Vec<String> {
    let mut sources = SourceMap::new();
    let source = sources.add("c.toml", text);
    let found = Cluster::parse(text, source).err().unwrap_or_default();
    let printed = lang::render(&found, &sources, false);
    printed.lines().filter(|line| line.starts_with("c.toml:")).map(str::to_owned).collect()
}

/// A cluster of two.
const TWO: &str = "\
[cluster]
name = 'rb'
line_rate = '1G'
control = 'b'
[[node]]
name = 'a'
ports = [{ name = 'a0', device = 'eth1' }]
[[node]]
name = 'b'
ports = [{ name = 'b0', device = 'eth1', mac = '02:00:00:00:00:01', address = ['192.0.2.1/24', '2001:db8::1/64'] }]
";

#[test]
fn the_least_that_must_be_said() {
    let cluster = Cluster::parse(TWO, 0).unwrap();
    let address = |text: &str| text.parse::<Address>().unwrap();
    let line = |name: &str, mac, addresses| Line {
        name: name.to_owned(),
        device: "eth1".to_owned(),
        mac,
        addresses,
    };
    let node = |name: &str, line| Node {
        name: name.to_owned(),
        lines: vec![line],
        links: vec![None, None],
        ..Node::default()
    };
    let expected = Cluster {
        name: "rb".to_owned(),
        control: 1,
        line_rate: 1_000_000_000,
        link_rate: 0,
        link_type: LinkType::Veth,
        rates: BTreeMap::new(),
        order: Order::Strict,
        classes: Vec::new(),
        policy: Policy::Adaptive,
        hello: Duration::from_millis(10),
        mtu: 1500,
        extras: Extras::default(),
        eal: Vec::new(),
        listen: None,
        authority: None,
        max_nodes: 0,
        etcd: None,
        fly: None,
        nodes: vec![
            node("a", line("a0", None, Vec::new())),
            node(
                "b",
                line(
                    "b0",
                    Some([2, 0, 0, 0, 0, 1]),
                    vec![address("192.0.2.1/24"), address("2001:db8::1/64")],
                ),
            ),
        ],
    };
    assert_eq!(cluster, expected);
    assert_eq!((cluster.link_rate(), cluster.link_mtu(), cluster.node("b")), (1_000_000_000, 1518, Some(1)));
    assert_eq!(
        cluster.lines().map(|(number, node, line)| (number, node, &*line.name)).collect::<Vec<_>>(),
        [(0, 0, "a0"), (1, 1, "b0")]
    );
    assert_eq!((cluster.room(), cluster.members()), (8, vec![0, 1]));
}

#[test]
fn mistakes_in_settings() {
    let text = "\
[cluster]
name = 'a b'
line_rate = '10 G'
link_rate = 7
link_type = 'vet'
control = 'c'
order = 'stirct'
policy = 'x'
hello = '3'
mtu = 70
listen = '7400'
rpf = 'Loose'
count_routes = 1
linerate = 1
[[node]]
name = 'to-be-or-not-to-be'
ports = [{ nam = 'a0', device = '0000:3b:00.0' }, 7]
[[node]]
name = 'b'
ports = [{ name = 'a/b', device = 'eth1', address = ['192.0.2.1'], mac = '01:00:00:00:00:00' }, { name = 'b1', device = 'eth1' }]
[nodes]
";
    let expected = [
        "c.toml:2:8: error: `name` is 1 to 12 letters and digits, perhaps with `-` between them",
        "c.toml:3:13: error: `line_rate` is a rate in bits per second, from 8k to 100T, such as 10G or 2.5M",
        "c.toml:4:13: error: `link_rate` is a string, not an integer",
        "c.toml:5:13: error: no link_type `vet`; did you mean `veth`?",
        "c.toml:6:11: error: no node `c`",
        "c.toml:7:9: error: no order `stirct`; did you mean `strict`?",
        "c.toml:8:10: error: no policy `x`",
        "c.toml:9:9: error: `hello` is a time from 1ms to 1s, such as 5ms",
        "c.toml:10:7: error: `mtu` is a whole number from 576 to 9000",
        "c.toml:11:10: error: `listen` is an address and a port such as 192.0.2.1:7400",
        "c.toml:12:7: error: `rpf` is strict, loose or off",
        "c.toml:13:16: error: `count_routes` is true or false, not an integer",
        "c.toml:14:1: error: no setting of a cluster `linerate`; did you mean `line_rate`?",
        "c.toml:16:8: error: `name` is 1 to 12 letters and digits, perhaps with `-` between them",
        "c.toml:17:10: error: this port lacks `name`",
        "c.toml:17:12: error: no setting of a port `nam`; did you mean `name`?",
        "c.toml:17:33: error: `0000:3b:00.0` is a PCI device; ports of a cluster are interfaces of Linux",
        "c.toml:17:51: error: `a port` is a table, not an integer",
        "c.toml:18:1: error: all nodes have as many ports: 1, not 2",
        "c.toml:15:1: note: as this one",
        "c.toml:20:19: error: no interface of Linux can be called `a/b`",
        "c.toml:20:54: error: `address` is a list, each an address with the length of its prefix, such as 192.0.2.1/24",
        "c.toml:20:74: error: `mac` is an Ethernet address of one interface, such as 02:00:00:00:00:01",
        "c.toml:20:121: error: device `eth1` is given twice",
        "c.toml:20:35: note: first here",
        "c.toml:21:2: error: no table `nodes`; did you mean `node`?",
    ];
    assert_eq!(mistakes(text), expected);
}

#[test]
fn what_packets_pass_and_who_works() {
    let text = TWO.replace("'1G'", "'1G'\nrpf = 'off'\nredirects = true\ncount_routes = true");
    let text = text.replace("name = 'b'\n", "name = 'b'\nworkers = 2\ncpus = '0,2-3'\nbuffers = 50000\n");
    let cluster = Cluster::parse(&text, 0).unwrap();
    assert_eq!(cluster.extras, Extras { redirects: true, counts: true, ..Extras::default() });
    let of_nodes: Vec<_> = cluster.nodes.iter().map(|node| (node.workers(), &node.cpus[..])).collect();
    assert_eq!(of_nodes, [(1, &[][..]), (2, &[0, 2, 3])]);
    let buffers: Vec<_> = cluster.nodes.iter().map(|node| node.buffers).collect();
    assert_eq!(buffers, [None, Some(50_000)]);
    assert_eq!(
        mistakes(&text.replace("= 2", "= 0").replace("'0,2-3'", "'2-0'").replace("50000", "1023")),
        [
            "c.toml:13:11: error: `workers` is a whole number from 1 to 256",
            "c.toml:14:8: error: `cpus` is a list of processors such as 2,4-7",
            "c.toml:15:11: error: `buffers` is a whole number from 1024 to 4194304",
        ]
    );
    let loose = Cluster::parse(&text.replace("off", "loose"), 0).unwrap();
    assert_eq!(loose.extras.sources, Some(crate::linux::ReversePath::Loose));
}

#[test]
fn what_tables_are_looked_up_in() {
    let text = TWO.replace("'1G'", "'1G'\nlookup = { ipv4 = 'poptrie', ipv6 = 'quickest' }");
    let (ipv4, ipv6) = (Wanted::of_name::<u32>("poptrie"), Wanted::of_name::<u128>("quickest"));
    let lookup = Lookup { ipv4: ipv4.unwrap(), ipv6: ipv6.unwrap() };
    let cluster = Cluster::parse(&text, 0).unwrap();
    assert_eq!(cluster.extras, Extras { lookup, ..Extras::default() });
    assert_eq!(Changes::between(&cluster, &Cluster::parse(TWO, 0).unwrap()).fixed, ["lookup"]);
    assert_eq!(
        mistakes(&text.replace("poptrie", "poptri").replace("ipv6", "ip6")),
        [
            "c.toml:4:19: error: no structure for IPv4 `poptri`; did you mean `poptrie`?",
            "c.toml:4:29: error: no address family `ip6`; did you mean `ipv6`?",
        ]
    );
}

#[test]
fn mistakes_in_how_nodes_fit_together() {
    let text = "\
[[node]]
name = 'a'
ports = [{ name = 'p', device = 'eth1' }]
links = [{ to = 'b', device = 'eth2' }, { to = 'a', device = 'eth3' }, { to = 'd', device = 'eth1' }, { to = 'b' }]
[[node]]
name = 'b'
ports = [{ name = 'p', device = 'eth1' }]
[[node]]
name = 'a'
";
    let expected = [
        "c.toml:1:1: error: there is no table [cluster]",
        "c.toml:4:48: error: a link leads to another node",
        "c.toml:4:79: error: no node `d`",
        "c.toml:4:93: error: device `eth1` is given twice",
        "c.toml:3:33: note: first here",
        "c.toml:4:103: error: this link lacks `device` or `rate`",
        "c.toml:4:110: error: link `to b` is given twice",
        "c.toml:4:17: note: first here",
        "c.toml:7:19: error: port `p` is given twice",
        "c.toml:3:19: note: first here",
        "c.toml:8:1: error: this node lacks `ports`",
        "c.toml:8:1: error: all nodes have as many ports: 1, not 0",
        "c.toml:1:1: note: as this one",
        "c.toml:9:8: error: node `a` is given twice",
        "c.toml:2:8: note: first here",
    ];
    assert_eq!(mistakes(text), expected);
    assert_eq!(
        mistakes(&TWO[..TWO.rfind("[[node]]").unwrap_or(0)]).last().map(String::as_str),
        Some("c.toml:5:1: error: a cluster has at least two nodes")
    );
    let one_end =
        TWO.replace("[[node]]\nname = 'b'", "links = [{ to = 'b', device = 'eth2' }]\n[[node]]\nname = 'b'");
    assert_eq!(
        mistakes(&one_end),
        ["c.toml:9:1: error: node `b` lacks a link to `a`, which has one to it", "c.toml:8:10: note: here"]
    );
}

/// Numbers leave places free.
#[test]
fn nodes_have_numbers() {
    let text = TWO
        .replace("name = 'b'\nports", "name = 'b'\nnumber = 3\nports")
        .replace("control", "max_nodes = 4\ncontrol");
    let cluster = Cluster::parse(&text, 0).unwrap();
    assert_eq!((cluster.members(), cluster.room(), cluster.control, cluster.ports()), (vec![0, 3], 4, 3, 1));
    assert_eq!((cluster.node("b"), cluster.node(""), cluster.name_of(1)), (Some(3), None, ""));
    let lines: Vec<_> = cluster.lines().map(|(number, node, line)| (number, node, &*line.name)).collect();
    assert_eq!(lines, [(0, 0, "a0"), (3, 3, "b0")]);
    // Links of 2R/2, not of 2R/4.
    assert_eq!(cluster.link_rate(), 1_000_000_000);
    assert_eq!(
        mistakes(&text.replace("number = 3", "number = 0")),
        ["c.toml:11:10: error: number 0 is given twice", "c.toml:6:1: note: first here"]
    );
    assert_eq!(
        mistakes(&text.replace("number = 3", "number = 4")),
        ["c.toml:11:10: error: node number 4 is one too many for `max_nodes` 4: they begin with 0"]
    );
}

#[test]
fn where_the_control_node_is_elected() {
    let text = TWO.replace("name = 'a'", "name = 'a'\ncandidate = false\nlisten = '192.0.2.1:7400'");
    let text =
        format!("{text}[etcd]\nendpoints = ['https://a:1', 'https://[::1]:2/']\nauthority = 'x.pem'\n");
    let cluster = Cluster::parse(&text, 0).unwrap();
    let etcd = cluster.etcd.clone().unwrap();
    assert_eq!(etcd.endpoints, ["https://a:1", "https://[::1]:2"]);
    let expected =
        Etcd { endpoints: etcd.endpoints.clone(), authority: Some("x.pem".into()), ..Etcd::default() };
    assert_eq!(etcd, expected);
    assert_eq!(
        [cluster.may_control(0), cluster.may_control(1), cluster.may_control(2)],
        [false, true, false]
    );
    assert_eq!(cluster.nodes[0].listen, Some("192.0.2.1:7400".parse().unwrap()));
    // The example says what is so if nothing is said.
    let example = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/cluster.toml"));
    let example = example.unwrap();
    let said = ["prefix", "ttl", "hold"].map(|name| {
        let start = format!("# {name} = ");
        example.lines().find(|line| line.starts_with(&start)).unwrap().trim_start_matches("# ").to_owned()
    });
    let same = Cluster::parse(&format!("{text}{}\n", said.join("\n")), 0).unwrap();
    assert_eq!(same, cluster);
    let fixed = Changes::between(&cluster, &Cluster::parse(&text.replace("//a", "//b"), 0).unwrap()).fixed;
    assert_eq!(fixed, ["etcd"]);
    // No node is the control node for good.
    let other = Cluster::parse(&text.replace("00:01", "00:02"), 0).unwrap();
    let changes = Changes::between(&cluster, &other);
    assert_eq!((changes.fixed, changes.gone, changes.new), (vec![], vec![1], vec![1]));
}

#[test]
fn mistakes_about_elections() {
    let nodes = TWO.replace("name = 'b'\nports", "name = 'b'\ncandidate = false\nports");
    let text = format!(
        "{nodes}[etcd]\nendpoints = ['127.0.0.1:2379']\nprefix = 'x/'\nttl = '1s'\nhold = '2h'\nendpoint = 1\n"
    );
    let expected = [
        "c.toml:4:11: error: node `b` cannot be the control node: it is no `candidate`",
        "c.toml:13:14: error: `endpoints` is a list, each a URL with a host and a port such as http://192.0.2.1:2379",
        "c.toml:14:10: error: `prefix` is the beginning of keys such as /routebricks",
        "c.toml:15:7: error: `ttl` is a time of whole seconds from 2s to 60s, such as 3s",
        "c.toml:16:8: error: `hold` is a time up to 3600s, such as 60s",
        "c.toml:17:1: error: no setting of etcd `endpoint`; did you mean `endpoints`?",
    ];
    let mut sorted = expected.map(str::to_owned).to_vec();
    sorted.sort();
    let mut found = mistakes(&text);
    found.sort();
    assert_eq!(found, sorted);
    let one = |more: &str| mistakes(&format!("{TWO}[etcd]\n{more}\n"));
    let at = |what: &str| vec![format!("c.toml:11:1: error: {what}")];
    assert_eq!(one("ttl = '3s'"), at("etcd lacks `endpoints`"));
    let mixed = "the endpoints of etcd are all https or all http";
    assert_eq!(one("endpoints = ['http://a:1', 'https://b:1']"), at(mixed));
    assert_eq!(
        one("endpoints = ['https://a:1']"),
        at("etcd by https needs the `authority` that signed its certificates")
    );
    let plain = "certificates are for endpoints of etcd by https";
    assert_eq!(one("endpoints = ['http://a:1']\nauthority = 'x'"), at(plain));
    let user = "a `user` of etcd and the `password_file` belong together";
    assert_eq!(one("endpoints = ['http://a:1']\nuser = 'a'"), at(user));
    assert_eq!(one("endpoints = ['http://a:1']\npassword_file = 'p'"), at(user));
    assert_eq!(one("endpoints = ['http://a:1']\nuser = 'a'\npassword_file = 'p'"), [""; 0]);
    let half = "a `certificate` for etcd and its `key` belong together";
    assert_eq!(one("endpoints = ['https://a:1']\nauthority = 'x'\nkey = 'y'"), at(half));
    let candidate = TWO.replace("name = 'a'", "name = 'a'\ncandidate = 1");
    assert_eq!(mistakes(&candidate), ["c.toml:7:13: error: `candidate` is true or false, not an integer"]);
}

#[test]
fn what_changes_is_told() {
    let two = Cluster::parse(TWO, 0).unwrap();
    let three = Cluster::parse(&three_nodes(), 0).unwrap();
    let between = |old: &Cluster, new: &Cluster| {
        let changes = Changes::between(old, new);
        (changes.text(old, new), changes.fixed)
    };
    assert!(Changes::between(&two, &two).is_empty());
    assert_eq!(between(&two, &three), ("+ node c (number 2): c0 on eth7\n".to_owned(), vec![]));
    assert_eq!(between(&three, &two), ("- node c (number 2): c0 on eth7\n".to_owned(), vec![]));
    // What comes of taking one node over, as if it were the only one.
    let (mut grown, mut shrunk) = (two.clone(), three.clone());
    grown.take(&three, 2);
    shrunk.take(&two, 2);
    assert_eq!((&grown, shrunk.members()), (&three, vec![0, 1]));
    assert!(Changes::between(&shrunk, &two).is_empty());
    // Another place is a replacement, except for the control node.
    let moved = Cluster::parse(&TWO.replacen("eth1", "eth2", 1), 0).unwrap();
    let replaced = "- node a (number 0): a0 on eth1\n+ node a (number 0): a0 on eth2\n";
    assert_eq!(between(&two, &moved), (replaced.to_owned(), vec![]));
    let fixed = |text: &str| between(&two, &Cluster::parse(text, 0).unwrap()).1;
    assert_eq!(fixed(&TWO.replace("02:00:00:00:00:01", "02:00:00:00:00:02")), ["the control node, b"]);
    let others =
        TWO.replace("'1G'", "'2G'\nhello = '7ms'\nmax_nodes = 9\nrpf = 'strict'\ncount_routes = true");
    let room = "how many nodes there can be: it was started with room for 8 (`max_nodes`)";
    assert_eq!(fixed(&others), ["line_rate", "hello", "rpf", "count_routes", room]);
    // A rate of links between nodes that stay; those of nodes that come and go do so with them.
    let rated = |to: &str| {
        let text = three_nodes()
            .replace("name = 'b'\n", &format!("name = 'b'\nlinks = [{{ to = '{to}', rate = '1M' }}]\n"));
        Cluster::parse(&text, 0).unwrap()
    };
    assert_eq!(between(&three, &rated("a")).1, ["the rate of the link between a and b"]);
    assert_eq!(between(&two, &rated("c")), ("+ node c (number 2): c0 on eth7\n".to_owned(), vec![]));
    let (mut grown, mut shrunk) = (two.clone(), rated("c"));
    grown.take(&rated("c"), 2);
    shrunk.take(&two, 2);
    assert_eq!((grown, shrunk.rates.len()), (rated("c"), 0));
    // Without the first, the second would have another number.
    let two_three = |text: &str| {
        let rest =
            three_nodes().replace("[[node]]\nname = 'a'\nports = [{ name = 'a0', device = 'eth1' }]\n", text);
        between(&Cluster::parse(&three_nodes(), 0).unwrap(), &Cluster::parse(&rest, 0).unwrap()).1
    };
    let numbers = two_three("");
    assert_eq!(numbers[0], "the number of node b, which is 1 and would be 0: write `number = 1`");
    assert_eq!(numbers[1], "the number of node c, which is 2 and would be 1: write `number = 2`");
}

fn three_nodes() -> String {
    format!("{TWO}[[node]]\nname = 'c'\nports = [{{ name = 'c0', device = 'eth7' }}]\n")
}

#[test]
fn mistakes_against_toml() {
    assert_eq!(mistakes("[cluster]\nname = 'a'\nname = 'b'\n"), ["c.toml:3:1: error: duplicate key"]);
}

/// Every setting is in the example, if only as a comment, and what the comments say are the defaults.
#[test]
fn the_example_says_all_there_is() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/cluster.toml");
    let plain = Cluster::load(&file).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let is_setting = |line: &&str| line.split(' ').nth(1) == Some("=");
    let of_several = |line: &str| {
        let names =
            ["listen", "authority", "links", "certificate", "key", "number", "workers", "cpus", "buffers"];
        names
            .iter()
            .chain(&["endpoints", "prefix", "ttl", "hold", "user", "password_file"])
            .chain(&["name = \"voice\"", "order = \"single-path\"", "dscp"])
            .any(|name| line.starts_with(name))
    };
    let uncommented = |line| {
        str::strip_prefix(line, "# ").filter(is_setting).filter(|line| !of_several(line)).unwrap_or(line)
    };
    let all: String = text.lines().flat_map(|line| [uncommented(line), "\n"]).collect();
    for name in read::SETTINGS.iter().flat_map(|names| names.iter()) {
        assert!(text.contains(&format!("{name} = ")), "{name}");
    }
    let mut same = Cluster::parse(&all, 0).unwrap();
    assert_eq!((same.link_rate, same.max_nodes), (plain.link_rate(), plain.room()));
    (same.link_rate, same.max_nodes) = (0, 0);
    assert_eq!(same, plain);
}
