// histogram.cpp: histogram.c in C++, with an exception for each status.
//
//     c++ -O2 examples/c/histogram.cpp $(pkg-config --cflags --libs fastdp) -o histogram
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "fastdp.h"

struct Refused : std::runtime_error {
    explicit Refused(fdp_status_t status)
        : std::runtime_error("status " + std::to_string(static_cast<int>(status))) {}
};

static void check(fdp_status_t status)
{
    if (status != FDP_OK) {
        throw Refused(status);
    }
}

// A fresh key for one release, which is wiped at the end of its scope.
class Call {
public:
    Call() { check(fdp_call_open(&call_)); }
    // For tests: whoever has the key knows the noise.
    explicit Call(const uint8_t (&key)[32]) : call_{}
    {
        call_.stream.cipher = FDP_CIPHER_CHACHA20;
        fdp_stream_derive(call_.stream.key, key, 0);
    }
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;
    ~Call() { fdp_call_close(&call_); }

    // Adds noise, or throws and leaves zeros. A second release would have the same noise: it needs
    // a Call of its own.
    void release(const std::string &name, uint64_t num, uint64_t den,
                 std::vector<int64_t> &values) const
    {
        const fdp_ratio_t parameter = {&num, &den, 1, 1};
        const fdp_target_t target = {values.data(), FDP_I64, values.data(), FDP_I64, nullptr};
        fdp_sampler_t law;
        fdp_status_t status = name == "laplace" ? fdp_sampler_laplace(&law, &parameter, 0)
                                                : fdp_sampler_gaussian(&law, &parameter);
        if (status == FDP_OK) {
            status = fdp_release(&call_, &law, 0, values.size(), &target);
        } else {
            values.assign(values.size(), 0);
        }
        check(status);
    }

private:
    fdp_call_t call_;
};

static uint64_t hash(const std::vector<int64_t> &values)
{
    uint64_t state = 0xcbf29ce484222325u;
    for (const int64_t value : values) {
        for (int i = 0; i < 64; i += 8) {
            state = (state ^ (static_cast<uint64_t>(value) >> i & 255)) * 0x100000001b3u;
        }
    }
    return state;
}

static int compare(std::istream &file)
{
    const uint8_t key[32] = {1, 2, 3};
    const Call call(key);
    std::string name, want;
    uint64_t num, den;
    size_t n;
    int lines = 0, differ = 0;
    while (file >> name >> num >> den >> n >> want) {
        std::vector<int64_t> values(n);
        call.release(name, num, den, values);
        differ += hash(values) != std::stoull(want, nullptr, 16);
        lines++;
    }
    std::cout << lines << " vectors, " << differ << " differ\n";
    return differ + (lines == 0);
}

int main(int count, char **argument)
{
    const Call call;
    std::vector<int64_t> counts{120, 7, 0, 31}, refused = counts;
    call.release("laplace", 1, 1, counts);
    for (const int64_t x : counts) {
        std::cout << x << ' ';
    }
    try {
        call.release("laplace", 0, 1, refused);
    } catch (const Refused &error) {
        std::cout << "\na scale of 0: " << error.what() << '\n';
    }
    if (count > 1) {
        std::ifstream file(argument[1]);
        return compare(file) != 0;
    }
    return 0;
}
