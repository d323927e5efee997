/* wine_prng.c: bcryptprimitives.dll for Wine before version 9, which has none. With
 * FASTDP_TEST_PRNG=fail in the environment the system has no random bytes. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID data, ULONG size); /* RtlGenRandom */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{
    return GetEnvironmentVariableA("FASTDP_TEST_PRNG", NULL, 0) == 0 &&
           SystemFunction036(data, (ULONG)size);
}
