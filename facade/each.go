package facade

import "context"

// Each declares one part for each element of in, and returns the future of all their values, in the order of in. The
// parts are called name[0], name[1] and so on. Without elements there is no call, and the value is empty.
//
// The options hold for each element: if it is Optional, an element that fails has its fallback in its place. Key is the
// key of the whole. Share is a mistake here.
func Each[In, Out any](
	s *Scope, name string, in []In, fn func(context.Context, In) (Out, error), opt ...Part[Out],
) *Future[[]Out] {
	f := &Future[[]Out]{}
	f.part.name, f.part.body, f.part.kind = name, f, kindGroup
	var model Future[Out]
	text := model.configure(name, opt)
	switch {
	case text != "":
	case fn == nil:
		text = "the function is nil"
	case len(in) > maxParts:
		text = tooMany
	case model.opt != nil && model.opt.Share != nil:
		text = "Share is not for Each"
	}
	if text != "" {
		return enter(s, f, nil, text)
	}
	if key := model.part.key(); key != nil {
		f.part.own().key = key
	}
	elems := make([]Future[Out], len(in))
	each := make([]terms, len(in))
	parts := make([]*part, len(in))
	for i, v := range in {
		e := &elems[i]
		parts[i] = &e.part
		e.fn = func(ctx context.Context) (Out, error) { return fn(ctx, v) }
		e.opt = model.opt
		each[i] = terms{group: &f.part, index: i, timeout: model.part.timeout(), limit: model.part.limit()}
		e.part.body, e.part.name, e.part.optional, e.part.terms = e, name, model.part.optional, &each[i]
	}
	f.fn = func(context.Context) ([]Out, error) {
		out := make([]Out, len(elems))
		for i := range elems {
			out[i] = elems[i].value
		}
		return out, nil
	}
	return enter(s, f, parts, "")
}
