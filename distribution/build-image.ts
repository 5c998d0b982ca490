// Builds the images `slipway` and `slipway-agent` for amd64 and arm64 from nothing but the packages of image/lock.json
// and this commit: `npm run image`. Needs neither root, nor a container engine, nor a registry of base images.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { buildDashboard } from '../scripts/dashboard-build.ts'
import { VERSION } from '../src/kernel/version.ts'
import { listModules, listSources, readCommitTime } from './image/app-files.ts'
import { listLibraries, listNode, listTools, USER } from './image/contents.ts'
import { type ImageFile, type Layer, packLayer } from './image/layer.ts'
import { PLATFORMS, type Platform, readLock } from './image/lock-packages.ts'
import { createOciLayout, type Descriptor, MEDIA_TYPES, type OciLayout } from './image/oci-layout.ts'

const USAGE = `npm run image -- [--output FOLDER] [--platform amd64|arm64]… [--base] [--allow-changes]

Writes an OCI layout with the images \`slipway\` and \`slipway-agent\`, and digests.json.
  --output         folder of the layout; default: dist/image
  --platform       build for this processor only; default: amd64 and arm64
  --base           build what the Dockerfile starts from: the libraries, Node, and the tools of the agent
  --allow-changes  build although files have changed since the commit
See docs/images.md.`

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const NODE = ['/usr/local/bin/node', '/app/src/host/main.ts']
const ENVIRONMENT = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: '/var/lib/slipway',
  HOST: '0.0.0.0',
  PORT: '8787',
  UPLOADS_DIR: '/var/lib/slipway/uploads',
  SLIPWAY_AGENT_HOME: '/var/lib/slipway/agent',
}

type Image = {
  name: string
  title: string
  hasTools: boolean
  entrypoint: string[]
  command: string[]
  ports: number[]
}
const IMAGES: Image[] = [
  {
    name: 'slipway',
    title: 'Slipway: the control plane, and the commands of its operator',
    hasTools: false,
    entrypoint: NODE,
    command: ['start'],
    ports: [8787],
  },
  {
    name: 'slipway-agent',
    title: 'Slipway: the agent of a listener',
    hasTools: true,
    // As process 1, Node would not reap the orphans of applications and builds.
    entrypoint: ['/usr/bin/tini', '--', ...NODE],
    command: ['agent'],
    ports: [8788],
  },
]

const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim()

function readOptions() {
  const { values } = parseArgs({
    options: {
      output: { type: 'string', default: join(ROOT, 'dist/image') },
      platform: { type: 'string', multiple: true, default: [...PLATFORMS] },
      base: { type: 'boolean', default: false },
      'allow-changes': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return void console.log(USAGE)
  const unknown = values.platform.find(name => !PLATFORMS.includes(name as Platform))
  if (unknown) throw new Error(`--platform ${unknown} is not supported. Use one of: ${PLATFORMS.join(', ')}.`)
  if (!values['allow-changes'] && git('status', '--porcelain'))
    throw new Error('Files have changed since the commit. Commit them, or build with --allow-changes.')
  return { output: resolve(values.output), platforms: values.platform as Platform[], isBase: values.base }
}

/** Each layer is packed once, although images and processors share it. */
function createLayerCache() {
  const layers = new Map<string, Promise<Layer>>()
  return (key: string, title: string, list: () => Promise<ImageFile[]> | ImageFile[], mtime?: Date) => {
    const found = layers.get(key) ?? Promise.resolve(list()).then(files => packLayer(title, files, mtime))
    layers.set(key, found)
    return found
  }
}

function addImage(layout: OciLayout, image: Image, platform: Platform, layers: Layer[], time: Date, isBase: boolean) {
  const created = time.toISOString()
  const history = layers.map(({ title }) => ({ created, created_by: `distribution/build-image.ts: ${title}` }))
  const labels = {
    'org.opencontainers.image.title': image.title,
    'org.opencontainers.image.version': VERSION,
    'org.opencontainers.image.revision': git('rev-parse', 'HEAD'),
    'org.opencontainers.image.created': created,
    'org.opencontainers.image.licenses': 'MIT',
  }
  const program = isBase
    ? {}
    : {
        User: `${USER}:${USER}`,
        Entrypoint: image.entrypoint,
        Cmd: image.command,
        WorkingDir: '/app',
        ExposedPorts: Object.fromEntries(image.ports.map(port => [`${port}/tcp`, {}])),
        Labels: labels,
      }
  const variable = Object.entries(isBase ? { PATH: ENVIRONMENT.PATH } : ENVIRONMENT)
  const target = { architecture: platform, os: 'linux', ...(platform === 'arm64' && { variant: 'v8' }) }
  const config = layout.addConfig({
    created,
    ...target,
    config: { ...program, Env: variable.map(([name, value]) => `${name}=${value}`) },
    rootfs: { type: 'layers', diff_ids: layers.map(layer => layer.diffId) },
    history,
  })
  const descriptors = layers.map(layer => layout.addBlob(MEDIA_TYPES.layer, layer.blob))
  return { ...layout.addManifest({ config, layers: descriptors }), platform: target }
}

async function buildImages() {
  const options = readOptions()
  if (!options) return
  const { output, platforms, isBase } = options
  const lock = readLock()
  const time = isBase ? new Date(lock.time) : readCommitTime()
  if (!isBase) await buildDashboard()
  const layout = createOciLayout(output)
  const layer = createLayerCache()
  const digests: Record<string, string> = {}
  for (const image of IMAGES) {
    const name = isBase ? `${image.name}-base` : image.name
    const manifests: Descriptor[] = []
    for (const platform of platforms) {
      const layers = [
        await layer(`libraries ${platform}`, 'libraries', () => listLibraries(platform, lock)),
        await layer(`node ${platform}`, 'node', () => listNode(platform, lock)),
      ]
      if (image.hasTools) layers.push(await layer(`tools ${platform}`, 'tools', () => listTools(platform, lock)))
      if (!isBase)
        layers.push(await layer('modules', 'modules', listModules), await layer('app', 'app', listSources, time))
      manifests.push(addImage(layout, image, platform, layers, time, isBase))
      const sizes = layers.map(({ title, blob }) => `${title} ${toMegabytes(blob.length)}`)
      const total = layers.reduce((sum, { blob }) => sum + blob.length, 0)
      const unpacked = layers.reduce((sum, { size }) => sum + size, 0)
      console.log(`${name} ${platform}: ${toMegabytes(total)} MB to pull, ${toMegabytes(unpacked)} MB on disk`)
      console.log(`  ${sizes.join(', ')}`)
    }
    const index = layout.addIndex({ manifests })
    layout.name(index, name)
    digests[name] = index.digest
  }
  layout.close()
  fs.writeFileSync(join(output, 'digests.json'), `${JSON.stringify(digests, null, 2)}\n`)
  for (const [name, digest] of Object.entries(digests)) console.log(`${name} ${digest}`)
}

const toMegabytes = (bytes: number) => (bytes / 1e6).toFixed(1)

await buildImages().catch(error => {
  console.error(error.message)
  process.exitCode = 1
})
