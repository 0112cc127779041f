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

// code<mode, kind of g1, kind of g2, scope>() for the problem's rule, and for plain attention in the same scope.
template <class Code> auto by_scope(const Problem& p, Code code) {
  return by_rule(p, [&]<Mode mode, Kind kind1, Kind kind2>() {
    switch (scope_of(p)) {
      case Scope::some: return code.template operator()<mode, kind1, kind2, Scope::some>();
      case Scope::shared: return code.template operator()<mode, kind1, kind2, Scope::shared>();
      default: return code.template operator()<mode, kind1, kind2, Scope::all>();
    }
  });
}

template <class Code> auto plain_too(const Problem& p, Code code) {
  Problem plain = p;
  plain.mode = PLAIN, plain.g1.kind = plain.g2.kind = NONE;
  return std::pair(by_scope(p, code), by_scope(plain, code));
}

void forward(const Problem& p) {
  by_type(p, [&]<class IO, class C>() {
    const auto [rule, plain] = plain_too(p, []<Mode mode, Kind kind1, Kind kind2, Scope scope>() -> Diminish<C> {
      return diminish<C, mode, kind1, kind2, scope>;
    });
    Forward<IO, C>(p, rule, plain)();
  });
}

void backward(const Problem& p) {
  by_type(p, [&]<class IO, class C>() {
    const auto [rule, plain] = plain_too(p, []<Mode mode, Kind kind1, Kind kind2, Scope scope>() -> DiminishBackward<C> {
      return diminish_backward<C, mode, kind1, kind2, scope>;
    });
    Backward<IO, C>(p, rule, plain)();
  });
}

}  // namespace dwindle
