// The backward pass of attention, which op.py calls.
#include "attention.h"
#include "backward.h"

namespace dwindle {
namespace {

// IO is the type in memory, C that of the arithmetic.
template <class IO, class C> void gradients(const Arguments& given) {
  const Problem p = problem<C>(given);
  const auto code = []<Mode mode, Kind kind1, Kind kind2, Scope scope>() -> DiminishBackward<C> {
    return diminish_backward<C, mode, kind1, kind2, scope>;
  };
  Backward<IO, C>(p, by_strip(p, code))();
}

}  // namespace
}  // namespace dwindle

EXPORT(attention_backward, float32, (dwindle::gradients<float, float>))
EXPORT(attention_backward, float64, (dwindle::gradients<double, double>))
EXPORT(attention_backward, bfloat16, (dwindle::gradients<dwindle::Bfloat16, float>))
EXPORT(attention_backward, float16, (dwindle::gradients<dwindle::Half, float>))
