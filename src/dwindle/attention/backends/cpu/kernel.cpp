// Diminishing attention on the CPU: the C interface. Plain C++20 without torch's headers, so that it compiles
// in seconds wherever a compiler is; Python passes pointers, sizes and strides (op.py).
#include "backward.h"
#include "forward.h"

namespace dwindle {

// The rule's code for a mode and its kinds of g, with or without protected positions.
template <class C, bool protect> Diminish<C> diminish_for(const Problem& p) {
  switch (p.mode * 9 + p.kind1 * 3 + p.kind2) {
    case DIM * 9 + LOG * 3: return diminish<C, DIM, LOG, NONE, protect>;
    case DIM * 9 + POWER * 3: return diminish<C, DIM, POWER, NONE, protect>;
    case DYDIM * 9 + LOG * 3 + LOG: return diminish<C, DYDIM, LOG, LOG, protect>;
    case DYDIM * 9 + LOG * 3 + POWER: return diminish<C, DYDIM, LOG, POWER, protect>;
    case DYDIM * 9 + POWER * 3 + LOG: return diminish<C, DYDIM, POWER, LOG, protect>;
    case DYDIM * 9 + POWER * 3 + POWER: return diminish<C, DYDIM, POWER, POWER, protect>;
    default: return diminish<C, PLAIN, NONE, NONE, false>;
  }
}
template <class C, bool protect> DiminishBackward<C> backward_for(const Problem& p) {
  switch (p.mode * 9 + p.kind1 * 3 + p.kind2) {
    case DIM * 9 + LOG * 3: return diminish_backward<C, DIM, LOG, NONE, protect>;
    case DIM * 9 + POWER * 3: return diminish_backward<C, DIM, POWER, NONE, protect>;
    case DYDIM * 9 + LOG * 3 + LOG: return diminish_backward<C, DYDIM, LOG, LOG, protect>;
    case DYDIM * 9 + LOG * 3 + POWER: return diminish_backward<C, DYDIM, LOG, POWER, protect>;
    case DYDIM * 9 + POWER * 3 + LOG: return diminish_backward<C, DYDIM, POWER, LOG, protect>;
    case DYDIM * 9 + POWER * 3 + POWER: return diminish_backward<C, DYDIM, POWER, POWER, protect>;
    default: return diminish_backward<C, PLAIN, NONE, NONE, false>;
  }
}

template <class IO, class C> void forward(const Problem& p) {
  Forward<IO, C>(p, p.kept ? diminish_for<C, true>(p) : diminish_for<C, false>(p))();
}
template <class IO, class C> void backward(const Problem& p) {
  Backward<IO, C>(p, p.kept ? backward_for<C, true>(p) : backward_for<C, false>(p))();
}

}  // namespace dwindle

// 0: done; 1: out of memory.
extern "C" int dwindle_forward(const dwindle::Problem* p) {
  using namespace dwindle;
  try {
    switch (p->dtype) {
      case 0: forward<float, float>(*p); break;
      case 1: forward<double, double>(*p); break;
      case 2: forward<Bfloat16, float>(*p); break;
      default: forward<Half, float>(*p);
    }
  } catch (const std::bad_alloc&) { return 1; }
  return 0;
}

extern "C" int dwindle_backward(const dwindle::Problem* p) {
  using namespace dwindle;
  try {
    switch (p->dtype) {
      case 0: backward<float, float>(*p); break;
      case 1: backward<double, double>(*p); break;
      case 2: backward<Bfloat16, float>(*p); break;
      default: backward<Half, float>(*p);
    }
  } catch (const std::bad_alloc&) { return 1; }
  return 0;
}

extern "C" long dwindle_problem_size() { return sizeof(dwindle::Problem); }
