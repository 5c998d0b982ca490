// Writes an npm package into a folder: its files, and the tarball of them.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { packTar } from 'modern-tar'

export const ROOT = fileURLToPath(new URL('..', import.meta.url))
export const { version, license } = JSON.parse(fs.readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  version: string
  license: string
}

type NpmPackage = {
  manifest: { name: string; version: string } & Record<string, unknown>
  /** By their names. Those that end in `.mjs` are programs. */
  files: Record<string, Uint8Array | string>
}

/** Returns the path of the tarball. */
export async function writeNpmPackage(folder: string, { manifest, files }: NpmPackage): Promise<string> {
  fs.mkdirSync(folder, { recursive: true })
  const texts = { ...files, 'package.json': `${JSON.stringify(manifest, null, 2)}\n` }
  const contents = Object.entries(texts).map(([name, content]) => ({ name, body: Buffer.from(content) }))
  const mode = (name: string) => (name.endsWith('.mjs') ? 0o755 : 0o644)
  const entries = contents.map(({ name, body }) => ({
    header: { name: `package/${name}`, size: body.length, mode: mode(name), mtime: new Date(0) },
    body,
  }))
  const tarball = `${manifest.name.replace('@', '').replace('/', '-')}-${manifest.version}.tgz`
  for (const { name, body } of [...contents, { name: tarball, body: gzipSync(await packTar(entries)) }]) {
    // Renamed into place, because a command may be about to load it. npx would run a tarball that is executable.
    const temporary = join(folder, `${name}.${process.pid}`)
    fs.writeFileSync(temporary, body, { mode: mode(name) })
    fs.renameSync(temporary, join(folder, name))
  }
  return join(folder, tarball)
}
