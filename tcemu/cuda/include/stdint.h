#include <tcemu_prelude.h>
