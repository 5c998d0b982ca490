// The image of this commit, run by Podman on a root that is really read-only: what Fly and Cloud Run start.
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { check } from '../../support/trial.ts'
import { type Instance, startInstance } from './instance.ts'
import { ROOT, type Settings } from './self-host.ts'

const run = promisify(execFile)
// Rootless engines and machines without a systemd of their own refuse the limits that Podman sets by default.
const ENGINE = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n[engine]\nruntime = "runc"\n'

export type Image = { name: string; environment: Settings; env: Settings }

/** IMAGE_LAYOUT: what `npm run image` wrote before. Without it, the image is built. */
export async function loadImage(cleanup: AsyncDisposableStack, folder: string): Promise<Image> {
  const layout = process.env.IMAGE_LAYOUT || join(folder, 'layout')
  if (!process.env.IMAGE_LAYOUT) {
    const platform = process.arch === 'arm64' ? 'arm64' : 'amd64'
    await run(
      'npm',
      ['run', '--silent', 'image', '--', '--platform', platform, '--output', layout, '--allow-changes'],
      {
        cwd: ROOT,
      },
    )
  }
  const file = join(folder, 'containers.conf')
  writeFileSync(file, ENGINE)
  const env = { PATH: process.env.PATH!, HOME: process.env.HOME!, CONTAINERS_CONF: file }
  const name = `localhost/slipway-deploy-${process.pid}:trial`
  const options = { env, cwd: folder }
  await run(
    'skopeo',
    ['--insecure-policy', 'copy', '-q', `oci:${layout}:slipway`, `containers-storage:${name}`],
    options,
  )
  cleanup.defer(async () => void (await run('podman', ['rmi', '--force', name], options)))
  const { stdout } = await run('podman', ['image', 'inspect', name], options)
  const lines: string[] = JSON.parse(stdout)[0].Config.Env
  const environment = Object.fromEntries(lines.map(line => line.split(/=(.*)/s).slice(0, 2)))
  return { name, environment, env }
}

export async function startContainer(
  cleanup: AsyncDisposableStack,
  { image, platform, settings, args = [] }: { image: Image; platform: string; settings: Settings; args?: string[] },
): Promise<Instance & { checkReadOnly(): Promise<void> }> {
  const name = `slipway-${platform}-${process.pid}`
  const env = { ...image.env, ...settings }
  const podman = (...command: string[]) => run('podman', ['--log-level=error', ...command], { env: image.env })
  cleanup.defer(async () => void (await podman('rm', '--force', '--time', '1', name).catch(() => {})))
  const options = [
    '--name',
    name,
    '--network',
    'host',
    '--read-only',
    '--read-only-tmpfs=false',
    '--cap-drop',
    'all',
    '--security-opt',
    'no-new-privileges',
    ...Object.keys(settings).flatMap(variable => ['--env', variable]),
  ]
  const instance = startInstance(
    cleanup,
    settings.PUBLIC_URL!,
    { command: 'podman', args: ['--log-level=error', 'run', ...options, image.name, ...args], cwd: ROOT, env },
    async (_, signal) => void (await podman('kill', '--signal', signal, name)),
  )
  const checkReadOnly = async () => {
    const program = `for (const folder of ['/tmp', '/app', '/var/lib/slipway'])
      try {
        fs.writeFileSync(folder + '/file', '')
        console.log(folder)
      } catch (error) {
        if (error.code !== 'EROFS') throw error
      }`
    const { stdout } = await podman('exec', name, '/usr/local/bin/node', '-e', program)
    check(`${platform}: no folder can be written`, stdout === '', stdout)
  }
  return { ...instance, checkReadOnly }
}
