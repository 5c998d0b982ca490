// Pushes what build-image.ts built, with bills of materials and provenance as referrers: `npm run image:push`.
import * as fs from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { VERSION } from '../../src/kernel/version.ts'
import { blobPath, type Descriptor, type Index, type Manifest, MEDIA_TYPES, readBlobJson } from './oci-layout.ts'
import { openRepository, type Repository } from './registry.ts'

const USAGE = `npm run image:push -- REGISTRY/PATH [--layout FOLDER] [--tag TAG] [--plain-http]

Pushes the images of a layout to REGISTRY/PATH/slipway and REGISTRY/PATH/slipway-agent. A tag that has another digest
is not moved: a version never changes its content. Logs in with REGISTRY_USERNAME and REGISTRY_PASSWORD, or as
\`docker login\` did.
  --layout      folder that \`npm run image\` wrote; default: dist/image
  --tag         default: the version in package.json
  --plain-http  the registry has no TLS`

const REF_NAME = 'org.opencontainers.image.ref.name'

async function pushManifest(layout: string, repository: Repository, { digest, mediaType }: Descriptor, tag = digest) {
  const bytes = fs.readFileSync(blobPath(layout, digest))
  if (mediaType === MEDIA_TYPES.index)
    for (const manifest of readBlobJson<Index>(layout, digest).manifests)
      await pushManifest(layout, repository, manifest)
  else {
    const { config, layers } = readBlobJson<Manifest>(layout, digest)
    for (const blob of [config, ...layers])
      if (await repository.pushBlob(blob.digest, () => fs.readFileSync(blobPath(layout, blob.digest))))
        console.log(`pushed ${blob.digest} ${blob.size} bytes`)
  }
  return repository.pushManifest(tag, mediaType, bytes)
}

async function pushReferrer(layout: string, repository: Repository, referrer: Descriptor, subject: string) {
  const response = await pushManifest(layout, repository, referrer)
  if (!response.headers.has('OCI-Subject')) await repository.addReferrerTag(subject, referrer)
}

/** A digest, and those of its processors. */
const listDigests = (layout: string, { digest }: Descriptor) => [
  digest,
  ...readBlobJson<Index>(layout, digest).manifests.map(manifest => manifest.digest),
]

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      layout: { type: 'string', default: fileURLToPath(new URL('../../dist/image', import.meta.url)) },
      tag: { type: 'string', default: VERSION },
      'plain-http': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  })
  const [registry] = positionals
  if (values.help || !registry) return void console.log(USAGE)
  const layout = resolve(values.layout)
  if (!fs.existsSync(join(layout, 'index.json'))) throw new Error(`${layout} has no images. Run \`npm run image\`.`)
  const { manifests } = JSON.parse(fs.readFileSync(join(layout, 'index.json'), 'utf8')) as Index
  const referrers = manifests
    .filter(({ artifactType }) => artifactType)
    .map(referrer => ({ referrer, subject: readBlobJson<Manifest>(layout, referrer.digest).subject!.digest }))

  for (const image of manifests.filter(({ annotations }) => annotations?.[REF_NAME])) {
    const repository = openRepository(`${registry}/${image.annotations![REF_NAME]}`, { isPlain: values['plain-http'] })
    const present = await repository.findManifest(values.tag)
    if (present && present !== image.digest)
      throw new Error(`${repository.name}:${values.tag} exists as ${present}. Release another version.`)
    await pushManifest(layout, repository, image, values.tag)
    const digests = listDigests(layout, image)
    for (const { referrer, subject } of referrers)
      if (digests.includes(subject)) await pushReferrer(layout, repository, referrer, subject)
    console.log(`${repository.name}:${values.tag}@${image.digest}`)
  }
}

await main().catch(error => {
  console.error(error.message)
  process.exitCode = 1
})
