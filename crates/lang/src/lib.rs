//! The Click language: lex, parse, expand, print, diagnostics.
