// Builds the images `slipway` and `slipway-agent` for amd64 and arm64 from nothing but the packages of image/lock.json
// and this commit: `npm run image`. Needs neither root, nor a container engine, nor a registry of base images.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { buildDashboard } from '../../scripts/dashboard-build.ts'
import { VERSION } from '../../src/kernel/version.ts'
import { listModules, listSources, readCommitTime } from './app-files.ts'
import {
  BILL_TYPE,
  type Component,
  describeBundledPackages,
  describeDebianPackage,
  describeInstalledPackages,
  describeNode,
  writeBillOfMaterials,
} from './bill-of-materials.ts'
import { listLibraries, listNode, listTools } from './contents.ts'
import { describeConfig, describePlatform, IMAGES, type Image } from './image-config.ts'
import { type ImageFile, type Layer, packLayer } from './layer.ts'
import { PLATFORMS, type Platform, readLock } from './lock-packages.ts'
import { createOciLayout, type Descriptor, MEDIA_TYPES } from './oci-layout.ts'
import { describeProvenance, PROVENANCE_TYPE } from './provenance.ts'

const USAGE = `npm run image -- [--output FOLDER] [--platform amd64|arm64]… [--base] [--allow-changes]

Writes an OCI layout with the images \`slipway\` and \`slipway-agent\`, and beside it their digests, bills of materials
and provenance.
  --output         folder of the layout; default: dist/image
  --platform       build for this processor only; default: amd64 and arm64
  --base           build what the Dockerfile starts from: the libraries, Node, and the tools of the agent
  --allow-changes  build although files have changed since the commit
See docs/operate/images.md.`

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const lock = readLock()
const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim()
const writeJson = (path: string, value: object) => fs.writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`)

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
  const hasChanges = git('status', '--porcelain') !== ''
  if (hasChanges && !values['allow-changes'])
    throw new Error('Files have changed since the commit. Commit them, or build with --allow-changes.')
  return {
    output: resolve(values.output),
    platforms: values.platform as Platform[],
    isBase: values.base,
    hasChanges,
  }
}

type DescribedLayer = Layer & { components: Component[] }
type ListFiles = () => Promise<ImageFile[]> | ImageFile[]
type Describe = (files: ImageFile[]) => Component[]

/** Each layer is packed once, although images and processors share it. */
function createLayerCache(time: Date, bundledFolders: string[]) {
  const layers = new Map<string, Promise<DescribedLayer>>()
  const pack = async (title: string, list: ListFiles, describe: Describe, mtime?: Date) => {
    const files = await list()
    return { ...(await packLayer(title, files, mtime)), components: describe(files) }
  }
  const find = (key: string, ...settings: Parameters<typeof pack>) => {
    const found = layers.get(key) ?? pack(...settings)
    layers.set(key, found)
    return found
  }
  return {
    libraries: (platform: Platform) =>
      find(
        `libraries ${platform}`,
        'libraries',
        () => listLibraries(platform, lock),
        () => lock.libraries[platform].map(debian => describeDebianPackage(debian, platform)),
      ),
    node: (platform: Platform) =>
      find(
        `node ${platform}`,
        'node',
        () => listNode(platform, lock),
        () => [describeNode(lock.node[platform])],
      ),
    tools: (platform: Platform) =>
      find(
        `tools ${platform}`,
        'tools',
        () => listTools(platform, lock),
        files => [
          ...lock.tools[platform].map(debian => describeDebianPackage(debian, platform)),
          ...describeInstalledPackages(files),
        ],
      ),
    modules: () => find('modules', 'modules', listModules, describeInstalledPackages),
    app: () => find('app', 'app', listSources, () => describeBundledPackages(bundledFolders), time),
  }
}

async function buildImages() {
  const options = readOptions()
  if (!options) return
  const { output, platforms, isBase, hasChanges } = options
  const commit = git('rev-parse', 'HEAD')
  const time = isBase ? new Date(lock.time) : readCommitTime()
  if (!isBase) execFileSync(process.execPath, [join(ROOT, 'scripts/server-build.mjs')], { stdio: 'inherit' })
  const packed = createLayerCache(time, isBase ? [] : await buildDashboard())
  const layout = createOciLayout(output)
  const digests: Record<string, string> = {}

  for (const image of IMAGES) {
    const name = isBase ? `${image.name}-base` : image.name
    const manifests: Descriptor[] = []
    for (const platform of platforms) {
      const layers = [await packed.libraries(platform), await packed.node(platform)]
      if (image.hasTools) layers.push(await packed.tools(platform))
      if (!isBase) layers.push(await packed.modules(), await packed.app())
      const config = layout.addConfig(describeConfig(image, platform, layers, time, isBase ? undefined : commit))
      const blobs = layers.map(({ blob }) => layout.addBlob(MEDIA_TYPES.layer, blob))
      const manifest = layout.addManifest({ config, layers: blobs })
      manifests.push({ ...manifest, platform: describePlatform(platform) })
      printSizes(image, platform, layers)
      if (isBase) continue
      const subject = { name, version: VERSION, platform, digest: manifest.digest, time }
      const bill = writeBillOfMaterials(
        subject,
        layers.flatMap(({ components }) => components),
      )
      writeJson(join(output, `${name}.${platform}.cdx.json`), bill)
      layout.name(layout.addReferrer(manifest, BILL_TYPE, Buffer.from(JSON.stringify(bill))))
    }
    const index = layout.addIndex({ manifests })
    layout.name(index, name)
    digests[name] = index.digest
    if (isBase) continue
    const subjects = [index, ...manifests].map(({ digest }) => ({ name, digest }))
    const provenance = describeProvenance(image, subjects, { commit, hasChanges }, platforms, lock)
    writeJson(join(output, `${name}.provenance.json`), provenance)
    layout.name(layout.addReferrer(index, PROVENANCE_TYPE, Buffer.from(JSON.stringify(provenance))))
  }
  layout.close()
  writeJson(join(output, 'digests.json'), digests)
  for (const [name, digest] of Object.entries(digests)) console.log(`${name} ${digest}`)
}

function printSizes({ name }: Image, platform: Platform, layers: Layer[]): void {
  const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1)
  const pulled = layers.reduce((sum, { blob }) => sum + blob.length, 0)
  const unpacked = layers.reduce((sum, { size }) => sum + size, 0)
  const parts = layers.map(({ title, blob }) => `${title} ${megabytes(blob.length)}`).join(', ')
  console.log(`${name} ${platform}: ${megabytes(pulled)} MB to pull (${parts}), ${megabytes(unpacked)} MB on disk`)
}

await buildImages().catch(error => {
  console.error(error.message)
  process.exitCode = 1
})
