/* histogram_jni.c: what Histogram.java calls.
 *
 *     cc -O2 -shared -fPIC -I$JAVA_HOME/include -I$JAVA_HOME/include/linux \
 *         examples/c/histogram_jni.c $(pkg-config --cflags --libs fastdp) -o libhistogram_jni.so
 */
#include <jni.h>
#include <string.h>

#include "fastdp.h"

JNIEXPORT jint JNICALL Java_Histogram_release(JNIEnv *env, jclass type, jbyteArray key,
                                              jboolean gaussian, jlong num, jlong den,
                                              jlongArray values)
{
    const uint64_t top = (uint64_t)num, below = (uint64_t)den;
    const fdp_ratio_t parameter = {&top, &below, 1, 1};
    const jsize n = (*env)->GetArrayLength(env, values);
    jbyte bytes[32];
    fdp_sampler_t law;
    fdp_call_t call;
    jlong *at = (*env)->GetLongArrayElements(env, values, NULL);
    const fdp_target_t target = {at, FDP_I64, at, FDP_I64, NULL};
    (void)type;
    if (at == NULL) {
        return FDP_ERR_MEMORY;
    }
    if (key != NULL && (*env)->GetArrayLength(env, key) != (jsize)sizeof bytes) {
        memset(at, 0, (size_t)n * sizeof *at);
        (*env)->ReleaseLongArrayElements(env, values, at, 0);
        return FDP_ERR_PARAMETER;
    }
    fdp_status_t status = gaussian ? fdp_sampler_gaussian(&law, &parameter)
                                   : fdp_sampler_laplace(&law, &parameter, 0);
    if (status == FDP_OK && (status = fdp_call_open(&call)) == FDP_OK) {
        if (key != NULL) {
            (*env)->GetByteArrayRegion(env, key, 0, sizeof bytes, bytes);
            call.stream.cipher = FDP_CIPHER_CHACHA20;
            fdp_stream_derive(call.stream.key, (const uint8_t *)bytes, 0);
        }
        status = fdp_release(&call, &law, 0, (size_t)n, &target);
        fdp_call_close(&call);
    }
    if (status != FDP_OK) {
        memset(at, 0, (size_t)n * sizeof *at);
    }
    (*env)->ReleaseLongArrayElements(env, values, at, 0);
    return (jint)status;
}
