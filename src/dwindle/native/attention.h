// Diminishing attention on the CPU: a call of op.py as a Problem, and which code it takes. Both
// passes share this.
#pragma once
#include <cmath>
#include <limits>

#include "functions.h"
#include "work.h"

namespace dwindle {

template <int n> void take(const Index*& from, Index (&to)[n]) {
  for (Index& x : to) x = *from++;
}
template <class C> void take(void**& from, C*& to) { to = static_cast<C*>(*from++); }

// In the order in which `problem` of op.py writes them. It holds pointers only: the caller keeps
// the tensors.
template <class C> Problem problem(const Arguments& given) {
  Problem p{};
  const Index* n = given.sizes;
  for (Index* size : {&p.B, &p.H, &p.Hk, &p.T, &p.S, &p.D, &p.Dv, &p.P, &p.rows, &p.seed})
    *size = *n++;
  take(n, p.q_stride), take(n, p.k_stride), take(n, p.v_stride), take(n, p.bias_stride),
      take(n, p.mask_stride);
  take(n, p.protected_stride), p.source_stride = *n++, p.felt_stride = *n++;
  take(n, p.dout_stride), take(n, p.dbias_stride);
  void** a = given.arrays;
  take(a, p.q), take(a, p.k), take(a, p.v), take(a, p.bias), take(a, p.mask);
  take(a, p.is_protected), take(a, p.source), take(a, p.felt);
  take(a, p.out), take(a, p.total), take(a, p.peak), take(a, p.norms), take(a, p.totals),
      take(a, p.peaks);
  take(a, p.dout), take(a, p.dq), take(a, p.dk), take(a, p.dv), take(a, p.dbias), take(a, p.dtotal),
      take(a, p.dpeak);
  p.scale = given.numbers[0], p.softcap = given.numbers[1], p.dropout = given.numbers[2];
  const RuleNumbers& rule = *reinterpret_cast<const RuleNumbers*>(given.numbers + 3);
  p.mode = Mode(rule.mode), p.detach_gate = rule.detach_gate;
  p.renormalise = rule.renormalise && p.mode != PLAIN, p.share_heads = rule.share_heads;
  p.g1 = {Kind(rule.kind1), rule.s1, rule.p1, rule.terms1},
  p.g2 = {Kind(rule.kind2), rule.s2, rule.p2, rule.terms2};
  p.least_mass = std::sqrt(std::numeric_limits<C>::min());
  p.threads = given.threads;
  return p;
}

// pick<mode, kind of g1, kind of g2>() for the problem's rule.
template <Kind first, class Pick> auto by_second(const Problem& p, Pick pick) {
  switch (p.g2.kind) {
    case LOG: return pick.template operator()<DYDIM, first, LOG>();
    case POWER: return pick.template operator()<DYDIM, first, POWER>();
    case BOUNDED: return pick.template operator()<DYDIM, first, BOUNDED>();
    default: return pick.template operator()<DIM, first, NONE>();
  }
}
template <class Pick> auto by_rule(const Problem& p, Pick pick) {
  switch (p.g1.kind) {
    case LOG: return by_second<LOG>(p, pick);
    case POWER: return by_second<POWER>(p, pick);
    case BOUNDED: return by_second<BOUNDED>(p, pick);
    default: return pick.template operator()<PLAIN, NONE, NONE>();
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

}  // namespace dwindle
