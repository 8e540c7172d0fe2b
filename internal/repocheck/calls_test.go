package repocheck_test

import (
	"go/ast"
	"go/types"
	"slices"
)

func callRules() []rule {
	return []rule{
		{
			"sleep",
			"a test that sleeps on the real clock is slow on a good day and flaky on a bad one: sleep in a bubble of " +
				"testing/synctest; library code waits on a timer and a context together",
			checkSleep,
		},
		banned("after",
			"time.After cannot be stopped and allocates at each wait; use one timer and stop it",
			[]string{"time.After", "time.Tick"}),
		banned("print",
			"a library does not write to its user's terminal or log: facts go to reports, metrics and the caller's slog.Logger",
			[]string{
				"fmt.Print", "fmt.Printf", "fmt.Println", "print", "println", "log.Default",
				"log.Print", "log.Printf", "log.Println", "log.Fatal", "log.Fatalf", "log.Fatalln",
				"log.Panic", "log.Panicf", "log.Panicln", "log.Output", "log.SetOutput", "log.SetFlags", "log.SetPrefix",
			}),
		banned("background",
			"work on context.Background outlives every caller; only what owns detached work, bounds it and waits for it may start from there",
			[]string{"context.Background", "context.TODO"}),
		banned("panic",
			"a library does not end its user's program: mistakes of configuration and input are errors",
			[]string{"panic", "os.Exit", "runtime.Goexit"}),
		{
			"errtext",
			"the text of an error is no interface and changes with the next release: use errors.Is, errors.AsType, context.Cause",
			checkErrorText,
		},
		{
			"init",
			"init runs in every program that links the package, before main, in an order nobody chose",
			checkInit,
		},
		{
			"state",
			"package variables are shared by everything in the process: sentinels and tables that nobody writes are fine",
			checkState,
		},
		{
			"locked",
			"methods of http.ClientConn may run the state hook on this goroutine (golang/go#80680) or block on the network: " +
				"under the pool's lock that is a deadlock",
			checkLocked,
		},
	}
}

// banned makes the rule that library code uses none of the named functions, neither calling nor passing them on,
// outside the places that allow.txt names.
func banned(name, reason string, functions []string) rule {
	check := func(tr *tree) (out []finding) {
		tr.each((*file).library, func(f *file) {
			for _, decl := range f.ast.Decls {
				aborts := handlerAborts(tr.types, decl)
				for _, id := range identifiers(decl) {
					used := tr.types.funcName(id)
					if slices.Contains(functions, used) && !aborts[id] && !tr.allows(name, f, decl) {
						out = append(out, finding{tr.at(id), used})
					}
				}
			}
		})
		return append(out, tr.unusedAllowances(name)...)
	}
	return rule{name, reason, check}
}

// handlerAborts returns the uses of panic that tell an http.Server to drop a connection: panic(http.ErrAbortHandler).
func handlerAborts(ty *typed, decl ast.Decl) map[*ast.Ident]bool {
	out := map[*ast.Ident]bool{}
	ast.Inspect(decl, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		if sel, ok := call.Args[0].(*ast.SelectorExpr); ok {
			v, ok := ty.Uses[sel.Sel].(*types.Var)
			if ok && v.Name() == "ErrAbortHandler" && v.Pkg().Path() == "net/http" {
				out[called(call)] = true
			}
		}
		return true
	})
	return out
}

func identifiers(n ast.Node) (out []*ast.Ident) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			out = append(out, id)
		}
		return true
	})
	return out
}

// checkInit finds init functions, and what is one in disguise: a variable whose value a function of the package computes.
func checkInit(tr *tree) (out []finding) {
	tr.each(func(*file) bool { return true }, func(f *file) {
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					out = append(out, finding{tr.at(d), "init function"})
				}
			case *ast.GenDecl:
				if fn := computedBy(tr.types, d); fn != nil && f.library() && !tr.allows("init", f, d) {
					out = append(out, finding{tr.at(fn), fn.Name + " runs before main"})
				}
			}
		}
	})
	return append(out, tr.unusedAllowances("init")...)
}

// computedBy returns the first function of the package itself that the values of a declaration call, or nil.
func computedBy(ty *typed, decl *ast.GenDecl) (found *ast.Ident) {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // a function as a value; calling it here would be odd enough to be seen
		case *ast.CallExpr:
			id := called(n)
			if id == nil || found != nil {
				return true
			}
			if fn, ok := ty.Uses[id].(*types.Func); ok && fn.Pkg() != nil {
				if _, ours := own(fn.Pkg().Path()); ours {
					found = id
				}
			}
		}
		return true
	})
	return found
}
