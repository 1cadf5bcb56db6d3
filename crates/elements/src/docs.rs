//! The reference texts of all classes, gathered from the files' doc comments by `build.rs`.

/// One class's reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementDoc {
    /// Class name.
    pub class: &'static str,
    /// Folder that it lives in.
    pub layer: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The whole text, Markdown.
    pub text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/element_docs.rs"));

/// The references of all classes, by layer and file.
pub fn element_docs() -> &'static [ElementDoc] {
    ELEMENT_DOCS
}

impl ElementDoc {
    /// The example configurations in the text.
    pub fn examples(&self) -> Vec<String> {
        let mut examples = Vec::new();
        let mut current: Option<String> = None;
        for line in self.text.lines() {
            match (&mut current, line.trim_end()) {
                (None, "```click") => current = Some(String::new()),
                (Some(_), "```") => examples.extend(current.take()),
                (Some(text), line) => {
                    text.push_str(line);
                    text.push('\n');
                }
                (None, _) => {}
            }
        }
        examples
    }
}
