// The objects for a cluster, run by `podman kube play`: pods with their limits, secrets, volumes and restrictions.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { TOKEN_FOLDER } from '../../src/agent/engines/kubernetes/pod-template.ts'
import { modelTokenSecretOf, revisionObjects } from '../../src/agent/engines/kubernetes/revision-objects.ts'
import { encodeBase64, storesFor } from '../../src/agent/engines/kubernetes/store-objects.ts'
import { MODEL_TOKEN_FILE } from '../../src/agent/engines/model-variables.ts'
import { waitFor } from '../support/commands.ts'
import { makeArtifact, makeKubernetesSettings, makeKubernetesUnit } from '../support/kubernetes-fixtures.ts'
import { APPLICATION_IMAGE, type PodmanPlay, STORE_IMAGE, startPodmanPlay } from '../support/podman-play.ts'

const NAME = 'shop-aaaaaaaa00-r1'
const APP = `${NAME}-pod-0-app`
const SMALL = { cpu: 0.2, cpu_limit: 0.5, memory_mb: 64, memory_limit_mb: 96 }
let play: PodmanPlay
beforeAll(async () => {
  play = await startPodmanPlay()
})
afterEach(() => play.clear())
afterAll(() => play.stop())

const MODELS_URL = 'https://slipway.example.com/v2/models'
const MODEL_TOKEN = 'header.payload.signature'
// Podman ignores fsGroup: an init container writes to a volume as root, which this setting allows.
const settings = makeKubernetesSettings({ K8S_PRIVILEGES: 'on' })

/** Includes the Secret of a token for models, as the agent writes it. */
function createObjects(more: Parameters<typeof makeKubernetesUnit>[0] = {}, artifact = {}) {
  const unit = makeKubernetesUnit({ spec: SMALL, models_url: MODELS_URL, ...more })
  const token = { ...modelTokenSecretOf(settings, unit), data: { [MODEL_TOKEN_FILE]: encodeBase64(MODEL_TOKEN) } }
  return [token, ...revisionObjects(settings, unit, makeArtifact({ location: APPLICATION_IMAGE, ...artifact }))]
}

test('an application runs with its port, secrets and limits, and without privileges', async () => {
  await play.play(createObjects({ secrets: { TOKEN: 'hush' } }, { env: { MODE: 'fast' } }))
  expect(await waitFor(() => play.inside(APP, 'wget -qO- http://127.0.0.1:8000/health').catch(() => ''))).toBe('well')
  const env = await play.inside(APP, 'env')
  for (const one of ['TOKEN=hush', 'MODE=fast', 'PORT=8000', 'SLIPWAY_ROLE=web', `SLIPWAY_MODELS_URL=${MODELS_URL}`])
    expect(env).toContain(one)
  expect(await play.inside(APP, `cat ${TOKEN_FOLDER}/${MODEL_TOKEN_FILE}`)).toBe(MODEL_TOKEN)
  const status = await play.inside(APP, 'cat /proc/1/status')
  expect(status).toMatch(/^Uid:\s+1000/m)
  expect(status).toMatch(/^CapEff:\s+0+$/m)
  expect(status).toMatch(/^NoNewPrivs:\s+1$/m)
  expect(status).toMatch(/^Seccomp:\s+2$/m)
  const limits = await play.podman(
    'inspect',
    APP,
    '--format',
    '{{.HostConfig.Memory}} {{.HostConfig.CpuQuota}}/{{.HostConfig.CpuPeriod}}',
  )
  expect(limits).toBe(`${96 * 1024 * 1024} 50000/100000`)
  await expect(play.inside(APP, 'mount -t tmpfs none /tmp')).rejects.toThrow()
})

test('a start command is run by a shell', async () => {
  await play.play(
    createObjects(
      {},
      { start_command: 'echo "from $MODE" > /www/index.txt && exec httpd -f -p $PORT -h /www', env: { MODE: 'here' } },
    ),
  )
  expect(await waitFor(() => play.inside(APP, 'wget -qO- http://127.0.0.1:8000/index.txt').catch(() => ''))).toBe(
    'from here',
  )
})

test('init containers run first, sidecars run beside the application, and all of them share volumes', async () => {
  const mounts = [{ name: 'shared', mountPath: '/shared' }]
  const shell = (name: string, script: string) => ({
    name,
    image: APPLICATION_IMAGE,
    command: ['/bin/sh', '-c', script],
    volumeMounts: mounts,
  })
  const spec = {
    ...SMALL,
    volumes: [{ name: 'shared', emptyDir: {} }],
    volume_mounts: mounts,
    init_containers: [{ ...shell('first', 'echo before > /shared/first'), securityContext: { runAsUser: 0 } }],
    sidecars: [shell('beside', 'exec sleep 1000000')],
  }
  await play.play(createObjects({ spec }))
  expect(await waitFor(() => play.inside(APP, 'cat /shared/first').catch(() => ''))).toBe('before')
  expect(await play.inside(`${NAME}-pod-0-beside`, 'cat /shared/first')).toBe('before')
})

test('an application receives SIGTERM when it is stopped', async () => {
  await play.play(createObjects({}, { start_command: 'trap "exit 7" TERM; while :; do sleep 0.1; done' }))
  await waitFor(async () => (await play.podman('inspect', APP, '--format', '{{.State.Status}}')) === 'running')
  await play.podman('stop', '--time', '30', APP)
  expect(await play.podman('inspect', APP, '--format', '{{.State.ExitCode}}')).toBe('7')
})

test('a store stores its data on its volume, gets its settings, and passes its readiness probe', async () => {
  const settings = makeKubernetesSettings({ K8S_POSTGRES_IMAGE: STORE_IMAGE })
  const [store] = storesFor(
    settings,
    makeKubernetesUnit({ spec: { db_max_connections: 42, db_cpu: 0.1, db_memory_mb: 64 } }),
  )
  const objects = [store!.secret('generated'), ...store!.objects]
  // Podman ignores fsGroup, and root owns its volumes: the user of the store could not write to this one.
  const container = 'shop-aaaaaaaa00-db-postgres'
  await play.play(objects.filter(({ kind }) => kind !== 'StatefulSet'))
  const mountpoint = await play.podman('volume', 'inspect', 'shop-aaaaaaaa00-db', '--format', '{{.Mountpoint}}')
  await play.podman(
    'run',
    '--rm',
    '--user',
    '0',
    '--volume',
    `${mountpoint}:/volume`,
    '--entrypoint',
    '/bin/chmod',
    STORE_IMAGE,
    '777',
    '/volume',
  )
  await play.play(objects.filter(({ kind }) => kind === 'StatefulSet'))
  expect(await waitFor(() => play.inside(container, 'cat /data/pg/arguments').catch(() => ''))).toBe(
    '-c max_connections=42',
  )
  expect(await play.inside(container, 'env')).toContain('POSTGRES_PASSWORD=generated')
  expect(await play.inside(container, 'cat /proc/1/status')).toMatch(/^Uid:\s+999/m)
  const [probe] = objects.flatMap(object => (object as never as Probed).spec?.template?.spec.containers ?? [])
  await play.podman('exec', container, ...probe!.readinessProbe.exec.command)
  await play.podman('pod', 'rm', '--all', '--force', '--time', '0')
  await play.play(objects.filter(({ kind }) => kind === 'StatefulSet'))
  await waitFor(
    async () => (await play.inside(container, 'cat /data/pg/arguments').catch(() => '')).split('\n').length === 2,
  )
})
type Probed = { spec?: { template?: { spec: { containers: { readinessProbe: { exec: { command: string[] } } }[] } } } }
