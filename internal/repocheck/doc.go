// Package repocheck holds the rules of this repository as tests; it exports nothing and no program links it.
//
// A rule is a function from the parsed source to findings. TestRepository runs every rule over the repository, one
// subtest each, and prints with its findings why the rule exists. TestRulesCatch runs every rule over small trees in
// testdata which break it, so that no rule can fall silent unnoticed.
//
// Three texts are reviewed rather than computed:
//
//   - api.txt is the exported surface, one symbol a line. A change of it is a change for users:
//     "go test ./internal/repocheck -update" rewrites the file, and the diff is read in review.
//   - deps.txt names each direct dependency of the root module, where it may be imported, and why it is there.
//   - allow.txt names the functions that may do what is banned elsewhere, each with its reason.
//
// Source is type-checked against the standard library and the repository's own packages. Types of other modules stay
// unknown, which the rules can live with, so the tests need no network and still work while a package does not build.
package repocheck
