// Unpacks an image of an OCI layout to a folder: LAYOUT NAME PLATFORM FOLDER. Prints each path with its mode, owner and
// checksum; names what an image of ours must not have.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { unpackTar } from 'modern-tar'
import { blobPath, type Index, type Manifest, MEDIA_TYPES, readBlobJson } from '../../../../deploy/images/oci-layout.ts'

const [layout = '', name = '', platform = '', folder = ''] = process.argv.slice(2)

function findManifest(): Manifest {
  const { manifests } = JSON.parse(fs.readFileSync(join(layout, 'index.json'), 'utf8')) as Index
  const named = manifests.find(({ annotations }) => annotations?.['org.opencontainers.image.ref.name'] === name)!
  if (named.mediaType !== MEDIA_TYPES.index) return readBlobJson(layout, named.digest)
  const found = readBlobJson<Index>(layout, named.digest).manifests
  return readBlobJson(layout, found.find(manifest => manifest.platform?.architecture === platform)!.digest)
}

const lines = new Map<string, string>()
for (const { digest } of findManifest().layers) {
  const bytes = fs.readFileSync(blobPath(layout, digest))
  const entries = await unpackTar(bytes[0] === 0x1f ? gunzipSync(bytes) : bytes)
  for (const { header, data } of entries) {
    const path = header.name.replace(/\/$/, '')
    if (/(^|\/)\.wh\./.test(path)) throw new Error(`${path} deletes a file of another layer.`)
    const target = join(folder, path)
    // Some tools write the type of a file into its mode.
    const mode = ((header.mode ?? 0) & 0o7777).toString(8)
    if (header.type === 'directory') {
      fs.mkdirSync(target, { recursive: true })
      lines.set(path, `folder ${mode} ${header.uid}`)
      continue
    }
    fs.mkdirSync(dirname(target), { recursive: true })
    fs.rmSync(target, { force: true })
    if (header.type === 'symlink') {
      fs.symlinkSync(header.linkname!, target)
      lines.set(path, `link ${header.linkname}`)
      continue
    }
    const body = data ?? new Uint8Array()
    fs.writeFileSync(target, body, { mode: header.mode! })
    lines.set(path, `file ${mode} ${header.uid} ${createHash('sha256').update(body).digest('hex')}`)
  }
}
for (const [path, line] of [...lines].sort(([a], [b]) => (a < b ? -1 : 1))) console.log(`${path}\t${line}`)
