//! WGSL on a Vulkan device, through wgpu: any will do, a software one included.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use altgrad_plugin_api::KernelText;
use wgpu::util::DeviceExt as _;

use crate::{Runner, info};

/// A device and its queue.
pub struct VulkanDevice {
    device: wgpu::Device,
    queue: wgpu::Queue,
    /// The name that it reports.
    pub name: String,
}

/// wgpu's futures are ready at once on Vulkan.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a future of wgpu that waits"),
    }
}

impl VulkanDevice {
    /// The first Vulkan device.
    ///
    /// # Errors
    /// The reason why there is none, for skipping a test.
    pub fn new() -> Result<Self, String> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN;
        let instance = wgpu::Instance::new(descriptor);
        let adapter = ready(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))
            .map_err(|e| format!("no Vulkan device: {e}"))?;
        let name = adapter.get_info().name;
        let required_limits = adapter.limits();
        let (device, queue) =
            ready(adapter.request_device(&wgpu::DeviceDescriptor { required_limits, ..Default::default() }))
                .map_err(|e| format!("Vulkan device {name}: {e}"))?;
        Ok(Self { device, queue, name })
    }

    fn storage(&self, words: &[u32]) -> wgpu::Buffer {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: None,
            contents: &bytes,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
        })
    }

    fn read(&self, buffer: &wgpu::Buffer) -> Vec<u32> {
        let (device, size) = (&self.device, buffer.size());
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: false,
        });
        let mut encoder = device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, size);
        self.queue.submit([encoder.finish()]);
        staging.slice(..).map_async(wgpu::MapMode::Read, Result::unwrap);
        device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        let bytes = staging.slice(..).get_mapped_range().unwrap();
        bytes.as_chunks::<4>().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect()
    }
}

impl Runner for VulkanDevice {
    fn run(&self, kernel: &KernelText, cubes: u32, scalars: &[u32], buffers: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        let info = info(kernel, scalars, &buffers);
        let info: Vec<u32> = info.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]).collect();
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(&kernel.entry),
            source: wgpu::ShaderSource::Wgsl(kernel.source.as_str().into()),
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&kernel.entry),
            layout: None,
            module: &module,
            entry_point: Some(&kernel.entry),
            compilation_options: Default::default(),
            cache: None,
        });
        let stored: Vec<wgpu::Buffer> = buffers.iter().map(|words| self.storage(words)).collect();
        let info = self.storage(&info);
        let bindings = stored.iter().chain([&info]).enumerate();
        let entries: Vec<wgpu::BindGroupEntry<'_>> = bindings
            .map(|(i, buffer)| wgpu::BindGroupEntry {
                binding: i as u32,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let layout = &pipeline.get_bind_group_layout(0);
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout,
            entries: &entries,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(cubes, 1, 1);
        drop(pass);
        self.queue.submit([encoder.finish()]);
        stored.iter().map(|buffer| self.read(buffer)).collect()
    }
}
