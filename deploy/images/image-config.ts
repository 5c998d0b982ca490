// The two images, and what an engine reads of them: program, user, settings, ports, labels.
import { VERSION } from '../../src/kernel/version.ts'
import { USER } from './contents.ts'
import type { Layer } from './layer.ts'
import type { Platform } from './lock-packages.ts'

export type Image = {
  name: string
  title: string
  hasTools: boolean
  entrypoint: string[]
  command: string
  port: number
}

const [NODE, MAIN] = ['/usr/local/bin/node', '/app/src/host/main.mjs']
const PATH = '/usr/local/bin:/usr/bin:/bin'
export const ENVIRONMENT = {
  PATH,
  HOME: '/var/lib/slipway',
  HOST: '0.0.0.0',
  PORT: '8787',
  UPLOADS_DIR: '/var/lib/slipway/uploads',
  SLIPWAY_AGENT_HOME: '/var/lib/slipway/agent',
}

export const IMAGES: Image[] = [
  {
    name: 'slipway',
    title: 'Slipway: the control plane, and the commands of its operator',
    hasTools: false,
    entrypoint: [NODE, '--max-semi-space-size=16', MAIN],
    command: 'start',
    port: 8787,
  },
  {
    name: 'slipway-agent',
    title: 'Slipway: the agent of a listener',
    hasTools: true,
    // Node would not reap the orphans of applications and builds, as process 1.
    entrypoint: ['/usr/bin/tini', '--', NODE, MAIN],
    command: 'agent',
    port: 8788,
  },
]

export const describePlatform = (platform: Platform) => ({
  architecture: platform,
  os: 'linux',
  ...(platform === 'arm64' && { variant: 'v8' }),
})

/** `commit` is undefined for what the Dockerfile starts from, which has no program yet. */
export function describeConfig(image: Image, platform: Platform, layers: Layer[], time: Date, commit?: string): object {
  const created = time.toISOString()
  const program = commit && {
    User: `${USER}:${USER}`,
    Entrypoint: image.entrypoint,
    Cmd: [image.command],
    WorkingDir: '/app',
    ExposedPorts: { [`${image.port}/tcp`]: {} },
    Labels: {
      'org.opencontainers.image.title': image.title,
      'org.opencontainers.image.version': VERSION,
      'org.opencontainers.image.revision': commit,
      'org.opencontainers.image.created': created,
      'org.opencontainers.image.licenses': 'MIT',
    },
  }
  const variables = Object.entries(commit ? ENVIRONMENT : { PATH })
  return {
    created,
    ...describePlatform(platform),
    config: { ...program, Env: variables.map(([name, value]) => `${name}=${value}`) },
    rootfs: { type: 'layers', diff_ids: layers.map(layer => layer.diffId) },
    history: layers.map(({ title }) => ({ created, created_by: `deploy/images/build.ts: ${title}` })),
  }
}
