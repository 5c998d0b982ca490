// A Podman of a test's own: its images, containers, networks and socket in one folder, a registry beside it, and a small image.
// Where TEST_DOCKER_SOCKET names the socket of a Docker, the tests run against that one instead.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { isListening, waitFor } from './commands.ts'

const execute = promisify(execFile)

/** What kernels of small machines allow, and the runtime that works on old and new ones. */
export const CONTAINERS_CONFIG = `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`
/** A web server on PORT and the usual commands, all of one file. */
const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
RUN mkdir -p /www /tmp /app && echo well > /www/health
CMD ["/bin/sh", "-c", "hostname > /www/index.html; trap exit TERM; httpd -f -v -p $PORT -h /www & wait"]
`

export const DOCKER_SOCKET = process.env.TEST_DOCKER_SOCKET
export type Podman = Awaited<ReturnType<typeof startPodman>>

/** With a disk of so many megabytes, which takes root to make. */
export async function startPodman(disk_mb?: number) {
  const root = fs.mkdtempSync(join(tmpdir(), 'slipway-pods-'))
  const registry = `127.0.0.1:${await findFreePort()}`
  const spareRegistry = `127.0.0.1:${await findFreePort()}`
  const storage = { filesystem: { rootdirectory: join(root, 'registry') }, delete: { enabled: true } }
  const settings = { version: 0.1, log: { level: 'error' }, storage, http: { addr: registry } }
  fs.writeFileSync(join(root, 'registry.json'), JSON.stringify(settings))
  const serving = spawn('docker-registry', ['serve', join(root, 'registry.json')], { stdio: 'ignore' })
  const image = `${registry}/web:1`
  const { socket, podman, push, command, stop } = DOCKER_SOCKET
    ? connectDocker(root, DOCKER_SOCKET, registry)
    : await startPodmanService(root, [registry, spareRegistry], disk_mb)
  await waitFor(() => isListening(registry.split(':')[1]!))

  const context = join(root, 'image')
  fs.mkdirSync(context)
  fs.copyFileSync('/bin/busybox', join(context, 'busybox'))
  fs.writeFileSync(join(context, 'Dockerfile'), DOCKERFILE)
  await podman('build', '-t', image, context)
  await push(image)

  return {
    socket,
    registry,
    image,
    podman,
    push,
    /** The same as `podman`, for whoever talks to it while it runs. */
    command,
    /** Where a test may have a registry of its own, over plain http. */
    spareRegistry: spareRegistry,
    async stop() {
      await stop()
      const ended = once(serving, 'exit')
      serving.kill()
      await ended
      // Without root, what containers wrote belongs to users that only Podman can be.
      await fs.promises.rm(root, { recursive: true, force: true }).catch(() => podman('unshare', 'rm', '-rf', root))
    },
  }
}

async function startPodmanService(root: string, registries: string[], disk_mb?: number) {
  const file = (name: string, text: string) => {
    fs.writeFileSync(join(root, name), text)
    return join(root, name)
  }
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: root,
    XDG_RUNTIME_DIR: process.env.XDG_RUNTIME_DIR ?? root,
    CONTAINERS_CONF: file('containers.conf', CONTAINERS_CONFIG),
    CONTAINERS_REGISTRIES_CONF: file('registries.conf', registries.map(makeInsecureRegistry).join('')),
  }
  const own = [
    '--root',
    join(root, 'root'),
    '--runroot',
    join(root, 'run'),
    '--network-config-dir',
    join(root, 'networks'),
  ]
  if (disk_mb) {
    fs.mkdirSync(join(root, 'root'))
    await execute('mount', ['-t', 'tmpfs', '-o', `size=${disk_mb}m`, 'tmpfs', join(root, 'root')])
  }
  const socket = join(root, 'podman.sock')
  const podman = async (...args: string[]) =>
    (await execute('podman', [...own, ...args], { env, cwd: root })).stdout.trim()
  const service = spawn('podman', [...own, 'system', 'service', '--time', '0', `unix://${socket}`], {
    // What minds a container leaves a file where it stands.
    cwd: root,
    env,
    stdio: 'ignore',
  })
  await waitFor(() => canConnect(socket))
  return {
    socket,
    podman,
    push: (image: string) => podman('push', '--tls-verify=false', image),
    command: (...args: string[]) => spawn('podman', [...own, ...args], { env, stdio: ['pipe', 'pipe', 'ignore'] }),
    async stop() {
      await podman('rm', '--all', '--force', '--time', '0').catch(() => {})
      const ended = once(service, 'exit')
      service.kill()
      await ended
      const mounts = fs
        .readFileSync('/proc/mounts', 'utf8')
        .split('\n')
        .map(line => line.split(' ')[1] ?? '')
      for (const at of mounts.filter(mount => mount.startsWith(`${root}/`)).reverse())
        await execute('umount', ['--lazy', at]).catch(() => {})
    },
  }
}

/** Somebody's Docker, whose other containers and images are left alone; plain http is what it speaks with this machine's registries. */
function connectDocker(root: string, socket: string, registry: string) {
  const env = { PATH: process.env.PATH ?? '', HOME: root, DOCKER_HOST: `unix://${socket}`, DOCKER_BUILDKIT: '0' }
  const docker = async (...args: string[]) => (await execute('docker', args, { env, cwd: root })).stdout.trim()
  const all = async (...list: string[]) => (await docker(...list)).split('\n').filter(Boolean)
  return {
    socket,
    podman: docker,
    push: (image: string) => docker('push', image),
    command: (...args: string[]) => spawn('docker', args, { env, stdio: ['pipe', 'pipe', 'ignore'] }),
    async stop() {
      for (const id of await all('ps', '--all', '--quiet', '--filter', `ancestor=${registry}/web:1`))
        await docker('rm', '--force', '--volumes', id).catch(() => {})
      for (const id of await all('images', '--quiet', '--filter', `reference=${registry}/*`))
        await docker('rmi', '--force', id).catch(() => {})
    },
  }
}

const makeInsecureRegistry = (host: string) => `[[registry]]\nlocation = "${host}"\ninsecure = true\n`

const canConnect = (path: string) =>
  new Promise<boolean>(resolve => {
    const socket = connect({ path })
    socket.once('connect', () => resolve(Boolean(socket.destroy())))
    socket.once('error', () => resolve(false))
  })
