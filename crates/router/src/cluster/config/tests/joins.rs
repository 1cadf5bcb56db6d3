//! How nodes are joined: flies, and what links carry.

use super::*;

/// A 2-ary 2-fly: four nodes with lines, four behind them.
fn fly() -> String {
    let mut text =
        "[cluster]\nname = 'rb'\nline_rate = '1G'\ncontrol = 'b'\ntopology = 'fly 2 2'\n".to_owned();
    for (name, n) in ["a", "b", "c", "d"].iter().zip(0..) {
        text += &format!("[[node]]\nname = '{name}'\nports = [{{ name = '{name}0', device = 'eth{n}' }}]\n");
    }
    text + &["e", "f", "g", "h"].map(|name| format!("[[node]]\nname = '{name}'\n")).concat()
}

#[test]
fn nodes_can_be_a_fly() {
    let cluster = Cluster::parse(&fly(), 0).unwrap();
    assert_eq!((cluster.fly, cluster.room(), cluster.ports(), cluster.all_lines()), (Some([2, 2]), 8, 1, 4));
    assert_eq!(
        cluster.lines().map(|(number, node, _)| (number, node)).collect::<Vec<_>>(),
        [(0, 0), (1, 1), (2, 2), (3, 3)]
    );
    // 2R/k, not 2R/N.
    assert_eq!((cluster.link_rate(), cluster.permitted_load()), (1_000_000_000, None));
    // In and out.
    assert_eq!(
        [0, 3, 4, 7].map(|node| cluster.peers(node)),
        [vec![4, 5, 6], vec![5, 6, 7], vec![0, 1, 2], vec![1, 2, 3]]
    );
    assert!((0..8).all(|a| (0..8).all(|b| cluster.are_joined(a, b) == cluster.are_joined(b, a))));
    assert!(!cluster.are_joined(0, 8) && !cluster.are_joined(0, 1));
    assert_eq!((cluster.has_lines(3), cluster.has_lines(4)), (true, false));
    let mut elected = cluster.clone();
    elected.etcd = Some(Etcd::default());
    assert_eq!([0, 3, 4].map(|node| elected.may_control(node)), [true, true, false]);
    let rated = fly().replace("name = 'e'\n", "name = 'e'\nlinks = [{ to = 'a', rate = '2G' }]\n");
    assert_eq!(Cluster::parse(&rated, 0).unwrap().link_rates(), [1_000_000_000, 2_000_000_000]);
    let mesh = Cluster::parse(&three_nodes(), 0).unwrap();
    assert!(Changes::between(&mesh, &cluster).fixed.contains(&"topology".to_owned()));
    let other = Cluster::parse(&fly().replace("eth3", "eth4"), 0).unwrap();
    let changes = Changes::between(&cluster, &other);
    assert_eq!((changes.fixed, changes.gone, changes.new), (vec![], vec![3], vec![3]));
    assert!(Changes::between(&cluster, &cluster).is_empty());
}

/// Where each node is in a fly that lacks some they say themselves.
#[test]
fn nodes_of_a_fly_can_be_missing() {
    let all = Cluster::parse(&fly(), 0).unwrap();
    let [d, f] =
        ["[[node]]\nname = 'd'\nports = [{ name = 'd0', device = 'eth3' }]\n", "[[node]]\nname = 'f'\n"];
    let left = fly().replace(d, "").replace(f, "");
    let told = "a fly 2 2 has 8 nodes, not 6: where some are missing the others say their `number`";
    assert_eq!(mistakes(&left), [format!("c.toml:19:1: error: {told}")]);
    let numbered = (0..).zip(["a", "b", "c", "d", "e", "f", "g", "h"]).fold(left, |text, (number, name)| {
        text.replace(&format!("name = '{name}'\n"), &format!("name = '{name}'\nnumber = {number}\n"))
    });
    let cluster = Cluster::parse(&numbered, 0).unwrap();
    assert_eq!((cluster.members(), cluster.room()), (vec![0, 1, 2, 4, 6, 7], 8));
    assert_eq!((cluster.all_lines(), cluster.link_rate()), (4, 1_000_000_000));
    let changes = [Changes::between(&all, &cluster), Changes::between(&cluster, &all)];
    assert_eq!([&changes[0].gone, &changes[1].new], [&[3, 5], &[3, 5]]);
    assert!(changes.iter().all(|changes| changes.fixed.is_empty()), "{changes:?}");
    assert_eq!(
        mistakes(&numbered.replace("number = 4", "number = 4\nports = [{ name = 'e0', device = 'eth9' }]")),
        ["c.toml:18:1: error: only nodes of the first column have ports: numbers 0 to 3"]
    );
    assert_eq!(
        mistakes(&numbered.replace("number = 7", "number = 6")),
        ["c.toml:26:10: error: number 6 is given twice", "c.toml:23:10: note: first here"]
    );
}

#[test]
fn mistakes_in_a_fly() {
    let with = |from: &str, to: &str| mistakes(&fly().replace(from, to));
    assert_eq!(
        with("'fly 2 2'", "'fly 2'")[0],
        "c.toml:5:12: error: `topology` is mesh, or such as fly 4 2: links out of each node, from 2, and columns, from 2"
    );
    assert_eq!(
        with("'fly 2 2'", "'fly 2 3'"),
        [
            "c.toml:24:1: error: a fly 2 3 has 24 nodes, not 8: where some are missing the others say their `number`"
        ]
    );
    assert_eq!(
        with("control = 'b'", "control = 'h'\nmax_nodes = 9\npolicy = 'vlb'"),
        [
            "c.toml:4:11: error: node `h` cannot be the control node: it has no ports",
            "c.toml:5:1: error: `max_nodes` is for a full mesh, not for a fly",
            "c.toml:6:1: error: `policy` is for a full mesh, not for a fly",
        ]
    );
    assert_eq!(
        with("name = 'e'", "name = 'e'\nports = [{ name = 'e0', device = 'eth9' }]"),
        ["c.toml:18:1: error: only nodes of the first column have ports: numbers 0 to 3"]
    );
    assert_eq!(
        with("name = 'e'", "name = 'e'\ncandidate = true"),
        ["c.toml:18:1: error: only nodes of the first column are candidates: numbers 0 to 3"]
    );
    assert_eq!(
        with("ports = [{ name = 'd0', device = 'eth3' }]\n", ""),
        [
            "c.toml:15:1: error: this node lacks `ports`",
            "c.toml:15:1: error: all nodes of the first column have as many ports: 1, not 0",
            "c.toml:6:1: note: as this one",
        ]
    );
    assert_eq!(
        with("name = 'h'", "name = 'h'\nnumber = 8\nlinks = []"),
        ["c.toml:26:10: error: there is no node 8 in this fly: they begin with 0"]
    );
    assert_eq!(
        with("name = 'e'", "name = 'e'\nlinks = [{ to = 'd', rate = '1G' }]"),
        ["c.toml:20:17: error: there is no link between nodes `e` and `d` in this fly"]
    );
}

/// Either end may say what a link carries.
#[test]
fn links_have_rates() {
    let linked = |a: &str, b: &str| {
        let end = |name: &str, links: &str| format!("name = '{name}'\nlinks = [{links}]\n");
        let text = three_nodes().replace("name = 'a'\n", &end("a", a));
        text.replace("name = 'b'\n", &end("b", b)).replace("'1G'", "'1G'\nlink_rate = '600M'")
    };
    let text = linked(
        "{ to = 'b', rate = '500M' }",
        "{ to = 'a', device = 'eth2', rate = '0.5G' }, { to = 'c', rate = '300M' }",
    );
    // A device at one end asks for one at the other, a rate does not.
    assert_eq!(
        mistakes(&text),
        ["c.toml:6:1: error: node `a` lacks a link to `b`, which has one to it", "c.toml:12:10: note: here"]
    );
    let cluster = Cluster::parse(&text.replace("device = 'eth2', ", ""), 0).unwrap();
    assert_eq!(cluster.rates, BTreeMap::from([((0, 1), 500_000_000), ((1, 2), 300_000_000)]));
    assert_eq!((cluster.link_rate(), cluster.link_rates()), (600_000_000, [300_000_000, 600_000_000]));
    assert_eq!(cluster.rates_text(), "0 1 500000000bps 1 2 300000000bps");
    assert_eq!(cluster.nodes[0].links, [None, None, None]);
    let load = cluster.permitted_load().unwrap();
    let million = 1_000_000;
    let usable = |rate| rate * million - cluster.overhead(rate * million).sum();
    let mut links = Links::new(Topology::mesh(3).unwrap(), usable(600));
    for (a, b, rate) in [(0, 1, 500), (1, 0, 500), (1, 2, 300), (2, 1, 300)] {
        links.set(a, b, usable(rate));
    }
    assert_eq!(Some(load), links.guaranteed_load(1000 * million));
    let text = linked(
        "{ to = 'b', rate = '500M' }, { to = 'c', rate = '0' }, { to = 'a', rate = '1M' }",
        "{ to = 'a', rate = '501M' }, { rate = '1M' }, { to = 'c' }",
    );
    let expected = [
        "c.toml:8:58: error: `rate` is a rate in bits per second, from 8k to 100T, such as 10G or 2.5M",
        "c.toml:8:72: error: a link leads to another node",
        "c.toml:12:29: error: the other end of this link has another `rate`",
        "c.toml:8:29: note: here",
        "c.toml:12:39: error: this link lacks `to`",
        "c.toml:12:56: error: this link lacks `device` or `rate`",
    ];
    assert_eq!(mistakes(&text), expected);
}
