// Diminishing attention on the CPU: which code a problem takes. Plain C++20; tensors are op.cpp's affair.
#include "backward.h"
#include "forward.h"

namespace dwindle {

// pick<mode, kind of g1, kind of g2>() for the problem's rule.
template <class Pick> auto by_rule(const Problem& p, Pick pick) {
  switch (p.mode * 9 + p.g1.kind * 3 + p.g2.kind) {
    case DIM * 9 + LOG * 3: return pick.template operator()<DIM, LOG, NONE>();
    case DIM * 9 + POWER * 3: return pick.template operator()<DIM, POWER, NONE>();
    case DYDIM * 9 + LOG * 3 + LOG: return pick.template operator()<DYDIM, LOG, LOG>();
    case DYDIM * 9 + LOG * 3 + POWER: return pick.template operator()<DYDIM, LOG, POWER>();
    case DYDIM * 9 + POWER * 3 + LOG: return pick.template operator()<DYDIM, POWER, LOG>();
    case DYDIM * 9 + POWER * 3 + POWER: return pick.template operator()<DYDIM, POWER, POWER>();
    default: return pick.template operator()<PLAIN, NONE, NONE>();
  }
}

// run<type in memory, type of the arithmetic>() for the problem's tensors.
template <class Run> void by_type(const Problem& p, Run run) {
  switch (p.type) {
    case Type::float32: return run.template operator()<float, float>();
    case Type::float64: return run.template operator()<double, double>();
    case Type::bfloat16: return run.template operator()<Bfloat16, float>();
    case Type::float16: return run.template operator()<Half, float>();
  }
}

// code<mode, kind of g1, kind of g2, scope>() for each kind of strip that the problem may have.
template <class Code> auto by_strip(const Problem& p, Code code) {
  const auto some = [&]<Mode mode, Kind kind1, Kind kind2>() {
    return p.share_heads ? code.template operator()<mode, kind1, kind2, Scope::shared>()
                         : code.template operator()<mode, kind1, kind2, Scope::some>();
  };
  const auto all = [&]<Mode mode, Kind kind1, Kind kind2>() {
    return code.template operator()<mode, kind1, kind2, Scope::all>();
  };
  return Codes{by_rule(p, some), some.template operator()<PLAIN, NONE, NONE>(), by_rule(p, all)};
}

void forward(const Problem& p) {
  by_type(p, [&]<class IO, class C>() {
    Forward<IO, C>(p, by_strip(p, []<Mode mode, Kind kind1, Kind kind2, Scope scope>() -> Diminish<C> {
      return diminish<C, mode, kind1, kind2, scope>;
    }))();
  });
}

void backward(const Problem& p) {
  by_type(p, [&]<class IO, class C>() {
    Backward<IO, C>(p, by_strip(p, []<Mode mode, Kind kind1, Kind kind2, Scope scope>() -> DiminishBackward<C> {
      return diminish_backward<C, mode, kind1, kind2, scope>;
    }))();
  });
}

}  // namespace dwindle
