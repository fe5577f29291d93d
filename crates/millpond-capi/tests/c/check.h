/* What the tests have in common. */

#ifndef CHECK_H
#define CHECK_H

#include <millpond.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program if it is not so. */
#define CHECK(is)                                                                                                    \
    do {                                                                                                             \
        if (!(is)) {                                                                                                 \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #is, millpond_error_message());               \
            exit(1);                                                                                                 \
        }                                                                                                            \
    } while (0)

#endif
