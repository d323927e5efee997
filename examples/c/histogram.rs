// histogram.rs: histogram.c in Rust.
//
//     rustc examples/c/histogram.rs -l fastdp -l m
#[repr(C)]
struct Ratio { num: *const u64, den: *const u64, nums: usize, dens: usize }
#[repr(C)]
struct Target { x: *const i64, x_type: i32, out: *mut i64, out_type: i32, grid: *const f64 }
#[repr(C)]
struct Call { cipher: u32, key: [u8; 32], tape: *const u8 }
type Law = [u64; 2048]; // room for a fdp_sampler_t

const I64: i32 = 4;
const CHACHA20: u32 = 1;

extern "C" {
    fn fdp_sampler_laplace(law: *mut Law, scale: *const Ratio, bound: i64) -> i32;
    fn fdp_sampler_gaussian(law: *mut Law, sigma: *const Ratio) -> i32;
    fn fdp_call_open(call: *mut Call) -> i32;
    fn fdp_call_close(call: *mut Call);
    fn fdp_stream_derive(out: *mut u8, key: *const u8, index: u64);
    fn fdp_release(call: *const Call, law: *const Law, first: u64, n: usize, to: *const Target) -> i32;
}

impl Call {
    fn empty() -> Call { Call { cipher: CHACHA20, key: [0; 32], tape: std::ptr::null() } }

    /// A fresh key.
    fn open() -> Result<Call, i32> {
        let mut call = Call::empty();
        match unsafe { fdp_call_open(&mut call) } { 0 => Ok(call), status => Err(status) }
    }

    /// For tests: whoever has the key knows the noise.
    fn fixed(key: &[u8; 32]) -> Call {
        let mut call = Call::empty();
        unsafe { fdp_stream_derive(call.key.as_mut_ptr(), key.as_ptr(), 0) };
        call
    }

    /// Adds noise to the values, or leaves zeros. A second release would have the same noise: it
    /// needs a call of its own.
    fn release(&self, name: &str, num: u64, den: u64, values: &mut [i64]) -> Result<(), i32> {
        let mut law: Law = [0; 2048];
        let ratio = Ratio { num: &num, den: &den, nums: 1, dens: 1 };
        let at = values.as_mut_ptr();
        let to = Target { x: at, x_type: I64, out: at, out_type: I64, grid: std::ptr::null() };
        let mut status = unsafe {
            if name == "laplace" { fdp_sampler_laplace(&mut law, &ratio, 0) }
            else { fdp_sampler_gaussian(&mut law, &ratio) }
        };
        if status != 0 {
            values.fill(0);
        } else {
            status = unsafe { fdp_release(self, &law, 0, values.len(), &to) };
        }
        if status == 0 { Ok(()) } else { Err(status) }
    }
}

impl Drop for Call {
    fn drop(&mut self) { unsafe { fdp_call_close(self) } }
}

fn hash(values: &[i64]) -> u64 {
    values.iter().flat_map(|x| x.to_le_bytes())
        .fold(0xcbf29ce484222325, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x100000001b3))
}

fn differs(call: &Call, line: &str) -> bool {
    let word: Vec<&str> = line.split_whitespace().collect();
    let mut values = vec![0i64; word[3].parse().unwrap()];
    let drawn = call.release(word[0], word[1].parse().unwrap(), word[2].parse().unwrap(), &mut values);
    drawn.is_err() || hash(&values) != u64::from_str_radix(word[4], 16).unwrap()
}

fn main() {
    let call = Call::open().expect("randomness");
    let mut counts = [120, 7, 0, 31];
    call.release("laplace", 1, 1, &mut counts).expect("a release");
    println!("{counts:?}");
    if let Err(status) = call.release("laplace", 0, 1, &mut [120, 7]) {
        println!("a scale of 0: status {status}");
    }
    if let Some(path) = std::env::args().nth(1) {
        let text = std::fs::read_to_string(path).expect("the file of vectors");
        let mut key = [0u8; 32];
        key[..3].copy_from_slice(&[1, 2, 3]);
        let fixed = Call::fixed(&key);
        let differ = text.lines().filter(|line| differs(&fixed, line)).count();
        println!("{} vectors, {differ} differ", text.lines().count());
        std::process::exit((differ != 0 || text.is_empty()) as i32);
    }
}
