#!/usr/bin/env python3
"""PyTorch's operators on emulated GPUs give the results of the CPU."""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402
import torch_world  # noqa: E402

torch_world.enter()
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402


def gpu(tensor):
    return tensor.detach().to("cuda").requires_grad_(tensor.requires_grad)


class Equality(unittest.TestCase):
    def assert_same(self, function, *arguments, exact=True):
        """`function` and its gradients give the same on the GPU as on the CPU."""
        for argument in arguments:
            argument.grad = None
        on_gpu = [gpu(argument) for argument in arguments]
        expected, got = function(*arguments), function(*on_gpu)
        self.assertEqual(got.device.type, "cuda")
        self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape))
        limits = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(got.cpu(), expected, equal_nan=True, **limits)
        if expected.requires_grad:
            slope = torch.linspace(-1, 1, expected.numel(), dtype=expected.dtype).reshape(expected.shape)
            expected.backward(slope)
            got.backward(gpu(slope))
            for cpu_argument, gpu_argument in zip(arguments, on_gpu):
                if cpu_argument.requires_grad:
                    torch.testing.assert_close(gpu_argument.grad.cpu(), cpu_argument.grad, **limits)


class Operators(Equality):
    def setUp(self):
        torch.manual_seed(7)

    def test_plain_operators_give_the_cpus_results(self):
        a, b = torch.randn(5, 7, requires_grad=True), torch.randn(7, 3, requires_grad=True)
        self.assert_same(torch.matmul, a, b)
        self.assert_same(lambda x: x.t().softmax(0).sum(1).exp(), a)
        self.assert_same(lambda x: torch.cat([x, x * 2]).cumsum(0), a)
        self.assert_same(lambda x: x.topk(2).values, a)
        self.assert_same(lambda x: torch.linalg.solve(x @ x.t() + torch.eye(5, device=x.device), x), a)
        self.assert_same(lambda x: torch.fft.fft(x), a.detach())
        self.assert_same(lambda x: x.to(torch.bfloat16) * 3, a.detach())
        self.assert_same(lambda x: x.nonzero(), (a > 0).detach())

    def test_factories(self):
        for make in (lambda d: torch.arange(10, device=d), lambda d: torch.full((2, 3), 5.0, device=d),
                     lambda d: torch.eye(4, device=d), lambda d: torch.linspace(0, 1, 5, device=d),
                     lambda d: torch.tril_indices(3, 3, device=d)):
            made = make("cuda:1")
            self.assertEqual(made.device, torch.device("cuda:1"))
            torch.testing.assert_close(made.cpu(), make("cpu"), rtol=0, atol=0)

    def test_views_share_memory_and_versions(self):
        a = torch.zeros(4, 4, device="cuda")
        a.view(16)[3:7].add_(1)
        a.t()[0].mul_(5)
        self.assertEqual(a.cpu().flatten()[3:7].tolist(), [1, 5, 1, 1])
        self.assertEqual(a.real.data_ptr(), a.data_ptr())
        z = torch.zeros(3, dtype=torch.complex64, device="cuda")
        torch.view_as_real(z).fill_(2)
        self.assertEqual(z.cpu().tolist(), [2 + 2j] * 3)
        self.assertEqual(z.conj().resolve_conj().cpu().tolist(), [2 - 2j] * 3)

    def test_an_output_argument_is_resized_and_stays_on_the_gpu(self):
        a = torch.arange(6.0, device="cuda").reshape(2, 3)
        out = torch.empty(0, device="cuda")
        torch.add(a, 1, out=out)
        self.assertEqual((out.shape, out.device.type), (a.shape, "cuda"))
        self.assertEqual(out.cpu().tolist(), (a.cpu() + 1).tolist())
        self.assertGreaterEqual(out.untyped_storage().nbytes(), 24)

    def test_lists_of_tensors(self):
        tensors = [torch.ones(n, device="cuda") for n in (1, 3, 500)]
        torch._foreach_add_(tensors, 2.0)
        norms = torch._foreach_norm(tensors)
        self.assertEqual([t.sum().item() for t in tensors], [3.0, 9.0, 1500.0])
        self.assertTrue(all(n.is_cuda for n in norms))

    def test_indices_on_the_host(self):
        a = torch.arange(10.0, device="cuda")
        index = torch.tensor([1, 3])
        a[index] = 7
        self.assertEqual(a[index].cpu().tolist(), [7, 7])

    def test_softmax_widens_and_narrows_half(self):
        half = torch.randn(4, 8).half().requires_grad_()
        self.assert_same(lambda x: torch.softmax(x, -1, dtype=torch.float32), half, exact=False)
        self.assert_same(lambda x: torch.log_softmax(x, -1, dtype=torch.float32), half, exact=False)

    def test_convolution_attention_and_norms(self):
        image = torch.randn(2, 4, 9, 9, requires_grad=True)
        kernel = torch.randn(8, 2, 3, 3, requires_grad=True)
        self.assert_same(lambda x, w: F.conv2d(x, w, groups=2, padding=1), image, kernel, exact=False)
        self.assert_same(lambda x, w: F.conv_transpose2d(x, w, groups=2), image, kernel[:4].detach(), exact=False)
        query = torch.randn(2, 3, 6, 8, requires_grad=True)
        self.assert_same(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), query, exact=False)
        weight = torch.randn(9, requires_grad=True)
        self.assert_same(lambda x, w: F.layer_norm(x, (9,), w), image, weight, exact=False)
        self.assert_same(lambda x, w: F.rms_norm(x, (9,), w), image, weight, exact=False)

    def test_recurrent_layers(self):
        for kind in (torch.nn.LSTM, torch.nn.GRU):
            on_cpu = kind(5, 6, num_layers=2)
            on_gpu = kind(5, 6, num_layers=2).cuda()
            on_gpu.load_state_dict(on_cpu.state_dict())
            x = torch.randn(3, 2, 5)
            expected, got = on_cpu(x)[0], on_gpu(x.cuda())[0]
            expected.square().sum().backward()
            got.square().sum().backward()
            torch.testing.assert_close(got.cpu(), expected)
            for mine, theirs in zip(on_gpu.parameters(), on_cpu.parameters()):
                torch.testing.assert_close(mine.grad.cpu(), theirs.grad)

    def test_the_parts_of_synchronized_batch_norm(self):
        x = torch.randn(6, 3, 4, requires_grad=True)
        weight, bias = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        slope = torch.randn(6, 3, 4)
        expected = F.batch_norm(x, None, None, weight, bias, training=True)
        expected.backward(slope)
        cx, cw, cb, cs = (t.detach().cuda() for t in (x, weight, bias, slope))
        halves = [torch.batch_norm_stats(part, 1e-5) for part in cx.split((2, 4))]
        counts = torch.tensor([8.0, 16.0], device="cuda")
        mean, invstd = torch.batch_norm_gather_stats_with_counts(
            cx, torch.stack([h[0] for h in halves]), torch.stack([h[1] for h in halves]), None, None, 0.1, 1e-5, counts)
        torch.testing.assert_close(torch.batch_norm_elemt(cx, cw, cb, mean, invstd, 1e-5).cpu(), expected.detach())
        sums = torch.batch_norm_backward_reduce(cs, cx, mean, invstd, cw, True, True, True)
        got = torch.batch_norm_backward_elemt(cs, cx, mean, invstd, cw, sums[0], sums[1], counts.int())
        torch.testing.assert_close(got.cpu(), x.grad)
        torch.testing.assert_close(sums[2].cpu(), weight.grad)
        torch.testing.assert_close(sums[3].cpu(), bias.grad)

    def test_optimizers_and_gradient_scaling(self):
        def train(device):
            torch.manual_seed(3)
            model = torch.nn.Linear(4, 4).to(device)
            scaler = torch.amp.GradScaler(device, init_scale=8.0)
            optimizers = [torch.optim.AdamW(model.parameters(), fused=fused) for fused in (False, True)]
            for optimizer in optimizers:
                loss = model(torch.arange(8.0).reshape(2, 4).to(device)).square().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            return model.weight.detach().cpu()
        torch.testing.assert_close(train("cuda"), train("cpu"))


class FusedAttention(Equality):
    """Attention by the kernels that a program selects with sdpa_kernel."""

    def setUp(self):
        torch.manual_seed(7)

    def tensor(self, heads, length, features=16, dtype=torch.float32):
        return torch.randn(2, heads, length, features, dtype=dtype, requires_grad=True)

    def attend(self, backend, *tensors, **options):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*tensors, **options)

    def assert_attends(self, backend, *tensors, **options):
        """The GPU's results and gradients equal the CPU's in float64, within the precision of the inputs."""
        on_gpu, exact = [gpu(t) for t in tensors], [t.detach().double().requires_grad_() for t in tensors]
        got = self.attend(backend, *on_gpu, **options)
        expected = self.attend(SDPBackend.MATH, *exact, **options)
        slope = torch.randn_like(expected).to(got.dtype)
        got.backward(slope.cuda())
        expected.backward(slope.double())
        limit = 4 * torch.finfo(got.dtype).eps
        for mine, theirs in [(got, expected), *((g.grad, e.grad) for g, e in zip(on_gpu, exact))]:
            self.assertEqual((mine.dtype, mine.device.type), (got.dtype, "cuda"))
            torch.testing.assert_close(mine.cpu().double(), theirs, rtol=limit, atol=limit * theirs.abs().max().item())

    def test_flash_attention(self):
        for dtype in (torch.half, torch.bfloat16):
            query, key, value = (self.tensor(4, length, dtype=dtype) for length in (6, 9, 9))
            self.assert_attends(SDPBackend.FLASH_ATTENTION, query, key, value)
            self.assert_attends(SDPBackend.FLASH_ATTENTION, query, query, query, is_causal=True, scale=0.3)

    def test_flash_attention_of_features_that_need_padding(self):
        query = self.tensor(2, 5, features=12, dtype=torch.half)
        self.assert_attends(SDPBackend.FLASH_ATTENTION, query, query, query)

    def test_flash_attention_with_heads_that_queries_share(self):
        query, key, value = (self.tensor(heads, 7, dtype=torch.bfloat16) for heads in (6, 2, 2))
        self.assert_attends(SDPBackend.FLASH_ATTENTION, query, key, value, enable_gqa=True)

    def test_cudnn_attention(self):
        query, key, value = (self.tensor(4, length, dtype=torch.half) for length in (6, 9, 9))
        self.assert_attends(SDPBackend.CUDNN_ATTENTION, query, key, value)
        self.assert_attends(SDPBackend.CUDNN_ATTENTION, query, query, query, is_causal=True)

    def test_a_fused_kernel_takes_only_the_types_that_it_takes_on_a_gpu(self):
        query = self.tensor(2, 5).detach().cuda()
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            with self.assertRaisesRegex(RuntimeError, "No available kernel"):
                self.attend(backend, query, query, query)

    def test_efficient_attention(self):
        query, key, value = (self.tensor(3, length) for length in (6, 9, 9))
        self.assert_attends(SDPBackend.EFFICIENT_ATTENTION, query, key, value)
        self.assert_attends(SDPBackend.EFFICIENT_ATTENTION, query, key, value, is_causal=True)
        narrow = [self.tensor(3, length, dtype=torch.half) for length in (6, 9, 9)]
        self.assert_attends(SDPBackend.EFFICIENT_ATTENTION, *narrow)

    def test_efficient_attention_with_masks(self):
        query, key, value = (self.tensor(3, length) for length in (6, 8, 8))
        bias = torch.randn(6, 8, requires_grad=True)
        self.assert_same(lambda q, k, v, b: self.attend(SDPBackend.EFFICIENT_ATTENTION, q, k, v, attn_mask=b)
                         if q.is_cuda else self.attend(SDPBackend.MATH, q, k, v, attn_mask=b),
                         query, key, value, bias, exact=False)
        visible = torch.rand(2, 1, 6, 8) > 0.3
        visible[0, 0, 2] = False  # this query has every key masked
        self.assert_same(lambda q, k, v: self.attend(SDPBackend.EFFICIENT_ATTENTION if q.is_cuda else SDPBackend.MATH,
                                                     q, k, v, attn_mask=visible.to(q.device)),
                         query, key, value, exact=False)

    def test_dropout_and_its_gradient_use_the_same_elements(self):
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
            query, key = (torch.zeros(8, 4, 64, 16, device="cuda", dtype=torch.half) for _ in range(2))
            value = torch.ones(8, 4, 64, 16, device="cuda", dtype=torch.half, requires_grad=True)
            torch.manual_seed(11)
            out = self.attend(backend, query, key, value, dropout_p=0.25)
            torch.manual_seed(11)
            self.assertTrue(torch.equal(out, self.attend(backend, query, key, value, dropout_p=0.25)))
            self.assertAlmostEqual(out.float().mean().item(), 1, delta=0.02)
            self.assertGreater(out.float().std().item(), 0.01)
            # The output is linear in the values, so this holds for one choice of elements only.
            slope = torch.randn_like(out)
            out.backward(slope)
            torch.testing.assert_close((value.grad.float().sum()), (slope.float() * out.float()).sum(),
                                       rtol=1e-2, atol=1.0)

    def test_several_backends_and_the_choice_of_one(self):
        query = self.tensor(2, 6, dtype=torch.bfloat16)
        self.assert_attends([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION],
                            query, query, query, is_causal=True)

    def test_logsumexps_of_parts_merge_as_in_ring_attention(self):
        query, key, value = (gpu(self.tensor(2, 8, dtype=torch.half)).detach() for _ in range(3))
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        whole, sums = flash(query, key, value)[:2]
        parts = [flash(query, key[:, :, half], value[:, :, half])[:2] for half in (slice(0, 3), slice(3, 8))]
        merged = torch.logsumexp(torch.stack([part[1] for part in parts]), 0)
        torch.testing.assert_close(merged, sums)
        out = sum(part[0].float() * (part[1] - merged).exp().unsqueeze(-1) for part in parts)
        torch.testing.assert_close(out, whole.float(), rtol=1e-2, atol=1e-3)


class RandomNumbers(unittest.TestCase):
    def test_follow_the_seed_and_the_saved_state(self):
        torch.cuda.manual_seed(5)
        first = torch.randn(100, device="cuda")
        state = torch.cuda.get_rng_state()
        second = torch.rand(100, device="cuda")
        torch.cuda.set_rng_state(state)
        self.assertTrue(torch.rand(100, device="cuda").equal(second))
        torch.cuda.manual_seed(5)
        self.assertTrue(torch.randn(100, device="cuda").equal(first))
        self.assertLess(abs(torch.randn(10000, device="cuda").mean().item()), 0.1)

    def test_do_not_use_the_hosts_generator(self):
        torch.manual_seed(1)
        before = torch.get_rng_state()
        mask = F.dropout(torch.ones(1000, device="cuda"), 0.25)
        torch.randperm(10, device="cuda")
        self.assertTrue(torch.get_rng_state().equal(before))
        self.assertAlmostEqual(mask.count_nonzero().item() / 1000, 0.75, delta=0.1)
        self.assertAlmostEqual(mask.max().item(), 1 / 0.75, places=5)

    def test_require_a_generator_of_the_gpu(self):
        with self.assertRaisesRegex(RuntimeError, "Expected a 'cuda' device type for generator but found 'cpu'"):
            torch.empty(3, device="cuda").normal_(generator=torch.Generator())


class Mistakes(unittest.TestCase):
    def test_tensors_of_two_gpus(self):
        with self.assertRaisesRegex(RuntimeError, "Expected all tensors to be on the same device"):
            torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")

    def test_a_tensor_of_the_host_beside_one_of_a_gpu(self):
        with self.assertRaisesRegex(RuntimeError, "Expected all tensors to be on the same device.*cpu"):
            torch.ones(3, 3, device="cuda") @ torch.ones(3, 3)
        self.assertEqual((torch.ones(3, device="cuda") * torch.tensor(2.0)).sum().item(), 6)

    def test_a_kernel_without_a_host_version_fails(self):
        query = torch.randn(1, 2, 8, 64, device="cuda", dtype=torch.half)
        with self.assertRaises(RuntimeError):
            torch.ops.aten._flash_attention_forward(query, query, query, None, None, 2, 2, 0.0, False, False)
            torch.cuda.synchronize()

    def test_an_operator_cannot_be_captured_into_a_graph(self):
        a = torch.ones(4, device="cuda")
        with self.assertRaisesRegex(NotImplementedError, "while a CUDA graph is captured.*run the model without"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                a + 1
        self.assertEqual((a + 1).sum().item(), 8)

    def test_pytorch_without_the_extension_reports_the_remedy(self):
        with tempfile.TemporaryDirectory() as directory:
            copies = [shutil.copy(library, directory) for library in torch_world.EMULATION]
            ran = subprocess.run([sys.executable, "-c", "import torch; torch.zeros(1, device='cuda')"],
                                 capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": ":".join(copies)})
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("run scripts/setup_pytorch, then scripts/build", ran.stderr)


class Streams(unittest.TestCase):
    def test_an_operator_runs_after_earlier_work_of_its_stream(self):
        runtime = ctypes.CDLL("libcudart.so.13")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            a = torch.zeros(16, dtype=torch.uint8, device="cuda")
            torch.cuda._sleep(100_000_000)
            runtime.cudaMemsetAsync(ctypes.c_void_p(a.data_ptr()), 3, ctypes.c_size_t(16),
                                    ctypes.c_void_p(stream.cuda_stream))
            self.assertFalse(stream.query())
            self.assertEqual((a + 1).sum().item(), 64)

    def test_a_plain_copy_does_not_block_the_program(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            a, b, both = torch.zeros(16, device="cuda"), torch.ones(16, device="cuda"), torch.zeros(32, device="cuda")
            torch.cuda._sleep(100_000_000)
            a.copy_(b)
            both[16:].copy_(b)
            self.assertFalse(stream.query())
            a.t().copy_(a)  # onto itself, after the others
            self.assertEqual((a.sum().item(), both.tolist()), (16, [0] * 16 + [1] * 16))

    def test_copies_that_convert_or_reorder(self):
        a = torch.arange(12.0, device="cuda").view(3, 4)
        for copy in (torch.zeros(3, 4, dtype=torch.int64, device="cuda"), torch.zeros(4, 3, device="cuda").t(),
                     torch.zeros(2, 3, 4, device="cuda"), torch.zeros(3, 8, device="cuda")[:, ::2]):
            copy.copy_(a)
            self.assertEqual((copy - a).abs().sum().item(), 0)
        a[:, 1:].copy_(a[:, :-1].clone())
        self.assertEqual(a[0].tolist(), [0, 0, 1, 2])

    def test_events_order_streams(self):
        runtime = ctypes.CDLL("libcudart.so.13")
        busy, other, event = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event()
        a = torch.zeros(16, dtype=torch.uint8, device="cuda")
        torch.cuda.current_stream().synchronize()
        with torch.cuda.stream(busy):
            torch.cuda._sleep(100_000_000)
            runtime.cudaMemsetAsync(ctypes.c_void_p(a.data_ptr()), 9, ctypes.c_size_t(16),
                                    ctypes.c_void_p(busy.cuda_stream))
            event.record()
        with torch.cuda.stream(other):
            event.wait()
            self.assertEqual(a.sum().item(), 144)


class Memory(unittest.TestCase):
    def test_results_are_counted_and_freed(self):
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        a = torch.ones(1 << 20, device="cuda")
        b = a + a
        self.assertEqual(torch.cuda.memory_allocated() - before, 8 << 20)
        del a, b
        self.assertEqual(torch.cuda.memory_allocated(), before)

    def test_an_allocation_beyond_the_gpu_is_out_of_memory(self):
        a = torch.empty(1, device="cuda").expand(1 << 40)
        with self.assertRaises(torch.OutOfMemoryError):
            a + 1

    def test_a_result_lives_in_device_memory(self):
        class Attributes(ctypes.Structure):
            _fields_ = [("type", ctypes.c_int), ("device", ctypes.c_int), ("pointers", ctypes.c_void_p * 2),
                        ("reserved", ctypes.c_long * 8)]
        attributes = Attributes()
        result = torch.ones(3, device="cuda:1") * 2
        ctypes.CDLL("libcudart.so.13").cudaPointerGetAttributes(ctypes.byref(attributes),
                                                                ctypes.c_void_p(result.data_ptr()))
        self.assertEqual((attributes.type, attributes.device), (2, 1))


if __name__ == "__main__":
    cases.main()
