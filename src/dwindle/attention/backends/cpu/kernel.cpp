// Diminishing attention on the CPU: which code a problem takes. Plain C++20; tensors are op.cpp's affair.
#include "backward.h"
#include "forward.h"

namespace dwindle {

// The rule's code for a mode and its kinds of g, with or without protected positions.
template <class C, bool protect> Diminish<C> diminish_for(const Problem& p) {
  switch (p.mode * 9 + p.g1.kind * 3 + p.g2.kind) {
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
  switch (p.mode * 9 + p.g1.kind * 3 + p.g2.kind) {
    case DIM * 9 + LOG * 3: return diminish_backward<C, DIM, LOG, NONE, protect>;
    case DIM * 9 + POWER * 3: return diminish_backward<C, DIM, POWER, NONE, protect>;
    case DYDIM * 9 + LOG * 3 + LOG: return diminish_backward<C, DYDIM, LOG, LOG, protect>;
    case DYDIM * 9 + LOG * 3 + POWER: return diminish_backward<C, DYDIM, LOG, POWER, protect>;
    case DYDIM * 9 + POWER * 3 + LOG: return diminish_backward<C, DYDIM, POWER, LOG, protect>;
    case DYDIM * 9 + POWER * 3 + POWER: return diminish_backward<C, DYDIM, POWER, POWER, protect>;
    default: return diminish_backward<C, PLAIN, NONE, NONE, false>;
  }
}

template <class IO, class C> void run_forward(const Problem& p) {
  Forward<IO, C>(p, p.kept ? diminish_for<C, true>(p) : diminish_for<C, false>(p))();
}
template <class IO, class C> void run_backward(const Problem& p) {
  Backward<IO, C>(p, p.kept ? backward_for<C, true>(p) : backward_for<C, false>(p))();
}

void forward(const Problem& p) {
  switch (p.dtype) {
    case 0: return run_forward<float, float>(p);
    case 1: return run_forward<double, double>(p);
    case 2: return run_forward<Bfloat16, float>(p);
    default: return run_forward<Half, float>(p);
  }
}

void backward(const Problem& p) {
  switch (p.dtype) {
    case 0: return run_backward<float, float>(p);
    case 1: return run_backward<double, double>(p);
    case 2: return run_backward<Bfloat16, float>(p);
    default: return run_backward<Half, float>(p);
  }
}

}  // namespace dwindle
