//! Classes of packets.

use super::*;

#[test]
fn classes_are_read() {
    let text = format!(
        "{TWO}[[class]]\nname = 'voice'\norder = 'single-path'\ndscp = ['ef', 40, 'Va']\n\
         [[class]]\nname = 'bulk'\norder = 'spray'\ndscp = [0x08]\n"
    );
    let cluster = Cluster::parse(&text, 0).unwrap();
    let class =
        |name: &str, order, codes: &[u8]| Class { name: name.to_owned(), order, codes: codes.to_vec() };
    let classes = [class("voice", Order::SinglePath, &[46, 40, 44]), class("bulk", Order::Spray, &[8])];
    assert_eq!(cluster.classes, classes);
    assert_eq!(
        cluster.classes.iter().map(Class::text).collect::<Vec<_>>(),
        ["voice single-path 46 40 44", "bulk spray 8"]
    );
    let without = Cluster::parse(TWO, 0).unwrap();
    assert_eq!(without.classes, []);
    assert_eq!(Changes::between(&without, &cluster).fixed, ["class"]);
    assert_eq!(Changes::between(&cluster, &cluster), Changes::default());
}

/// What the manual shows, and what the example's comments do.
#[test]
fn examples_are_sound() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let page = read("docs/cluster.md");
    let shown = page.split("```toml\n# Little").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let cluster = Cluster::parse(&format!("{TWO}# Little{shown}"), 0).unwrap();
    let texts: Vec<String> = cluster.classes.iter().map(Class::text).collect();
    assert_eq!(texts, ["voice single-path 46 44 40", "bulk spray 1 8"]);
    let example = read("deploy/cluster.toml");
    let lines = example.lines().skip_while(|line| *line != "# [[class]]").take_while(|line| !line.is_empty());
    let class: String = lines.flat_map(|line| [line.trim_start_matches("# "), "\n"]).collect();
    let cluster = Cluster::parse(&format!("{TWO}{class}"), 0).unwrap();
    assert_eq!(cluster.classes.iter().map(Class::text).collect::<Vec<_>>(), ["voice single-path 46 44 40"]);
}

#[test]
fn mistakes_in_classes() {
    let text = format!(
        "{TWO}\
[[class]]
name = 'voice'
order = 'singlepath'
dscp = ['ef', 64, 'af44', 7.5, 46]
[[class]]
name = 'voice'
order = 'strict'
dscp = 46
code = 1
[[class]]
name = '2nd'
order = 'spray'
dscp = ['ef']
[[class]]
name = 'default'
dscp = []
"
    );
    let code = "`dscp` is a list of code points, each from 0 to 63 or a name such as ef, af41 or cs5";
    let expected = [
        "c.toml:13:9: error: no order `singlepath`; did you mean `single-path`?".to_owned(),
        format!("c.toml:14:15: error: {code}"),
        format!("c.toml:14:19: error: {code}"),
        format!("c.toml:14:27: error: {code}"),
        "c.toml:14:32: error: code point 46 is given twice".to_owned(),
        "c.toml:14:9: note: first here".to_owned(),
        "c.toml:16:8: error: class `voice` is given twice".to_owned(),
        "c.toml:12:8: note: first here".to_owned(),
        format!("c.toml:18:8: error: {code}, not an integer"),
        "c.toml:19:1: error: no setting of a class `code`".to_owned(),
        "c.toml:21:8: error: `name` is one that begins with a letter".to_owned(),
        "c.toml:23:9: error: code point 46 is given twice".to_owned(),
        "c.toml:14:9: note: first here".to_owned(),
        "c.toml:24:1: error: there can be 3 classes".to_owned(),
        "c.toml:24:1: error: this class lacks `order`".to_owned(),
        "c.toml:25:8: error: `name` is not `default`, which is what belongs to no class".to_owned(),
        "c.toml:26:8: error: `dscp` is empty: nothing belongs to this class".to_owned(),
    ];
    assert_eq!(mistakes(&text), expected);
    assert_eq!(
        mistakes(&format!("class = 7\n{TWO}")),
        ["c.toml:1:9: error: `class` is an array of tables: [[class]], not an integer"]
    );
    assert_eq!(
        mistakes(&format!("class = [7]\n{TWO}")),
        ["c.toml:1:10: error: `class` is a table, not an integer"]
    );
}
