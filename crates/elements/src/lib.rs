//! The vocabulary: the element classes of the Click language.
