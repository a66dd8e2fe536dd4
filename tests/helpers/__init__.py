"""What tests of every tier share: builders of objects, worlds to run controllers in, and fakes."""
