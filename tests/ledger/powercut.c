/* A power cut for SQLite, loaded before libc: it keeps the old bytes of what no fsync
 * has covered yet, and at the chosen operation puts a random half of them back, then
 * kills the process. Files are those below the folder that powercut_arm was given.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITE, TRUNCATE, UNLINK };
struct change { int kind; char path[512]; off_t at; size_t size; char *old; };
static struct change changes[1 << 16];
static int pending, operations, last, syncs;
static unsigned state;
static char folder[400];

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_truncate)(int, off_t), (*real_sync)(int), (*real_unlink)(const char *);

__attribute__((constructor)) static void find(void)
{
    real_pwrite = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
    real_truncate = (int (*)(int, off_t))dlsym(RTLD_NEXT, "ftruncate64");
    real_sync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    real_unlink = (int (*)(const char *))dlsym(RTLD_NEXT, "unlink");
}

void powercut_arm(const char *where, int operation, unsigned seed)
{
    snprintf(folder, sizeof folder, "%s", where);
    pending = operations = syncs = 0;
    last = operation;
    state = seed * 2654435761u + 1;
}
int powercut_operations(void) { return operations; }
int powercut_syncs(void) { return syncs; }

static int path_of(int file, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, 511);
    path[size < 0 ? 0 : size] = 0;
    return folder[0] && !strncmp(path, folder, strlen(folder)) && !strstr(path, "-shm");
}

static void cut(void)
{
    if (++operations != last) return;
    while (pending--) {
        struct change *c = changes + pending;
        state = state * 1664525u + 1013904223u;
        if (state >> 31) continue; /* this one reached the disk */
        if (c->kind == UNLINK) {
            char hidden[600];
            snprintf(hidden, sizeof hidden, "%s.gone", c->path);
            rename(hidden, c->path);
            continue;
        }
        FILE *file = fopen(c->path, "r+b");
        if (!file) continue;
        fseeko(file, c->at, SEEK_SET);
        fwrite(c->old, 1, c->size, file);
        fclose(file);
    }
    kill(getpid(), SIGKILL);
}

static void remember(int kind, int file, const char *path, off_t at, size_t size)
{
    struct change *c = changes + pending++;
    c->kind = kind;
    snprintf(c->path, sizeof c->path, "%s", path);
    c->at = at;
    c->size = size;
    c->old = calloc(size + 1, 1); /* beyond the end: zeros */
    if (size && pread(file, c->old, size, at) < 0) c->size = 0;
}

ssize_t pwrite64(int file, const void *data, size_t size, off_t at)
{
    char path[512];
    if (path_of(file, path)) {
        cut();
        remember(WRITE, file, path, at, size);
    }
    return real_pwrite(file, data, size, at);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at)
{
    return pwrite64(file, data, size, at);
}

int ftruncate64(int file, off_t size)
{
    char path[512];
    struct stat found;
    if (path_of(file, path)) {
        cut();
        fstat(file, &found);
        if (found.st_size > size)
            remember(TRUNCATE, file, path, size, (size_t)(found.st_size - size));
    }
    return real_truncate(file, size);
}
int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

int fsync(int file)
{
    char path[512], parent[512];
    int ours = path_of(file, path), kept = 0;
    if (ours) cut();
    int result = real_sync(file);
    syncs += ours;
    for (int i = 0; ours && i < pending; i++) { /* what this sync covers is safe */
        snprintf(parent, sizeof parent, "%s", changes[i].path);
        *strrchr(parent, '/') = 0;
        const char *covered = changes[i].kind == UNLINK ? parent : changes[i].path;
        if (strcmp(covered, path)) changes[kept++] = changes[i];
    }
    if (ours) pending = kept;
    return result;
}
int fdatasync(int file) { return fsync(file); }

int unlink(const char *path)
{
    char hidden[600];
    if (!folder[0] || strncmp(path, folder, strlen(folder)) || strstr(path, "-shm"))
        return real_unlink(path);
    cut();
    snprintf(hidden, sizeof hidden, "%s.gone", path);
    int result = rename(path, hidden);
    if (!result) remember(UNLINK, -1, path, 0, 0);
    return result;
}
