// Packages of Debian and npm: downloaded once, checked against the lock, and unpacked in memory.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { type ParsedTarEntryWithData, unpackTar } from 'modern-tar'
import type { ImageFile } from './layer.ts'
import type { DebianPackage, NpmPackage } from './lock-packages.ts'

const CACHE = process.env.SLIPWAY_IMAGE_CACHE || join(homedir(), '.cache/slipway-image')
const MIRROR = process.env.DEBIAN_MIRROR || 'http://deb.debian.org'
const SNAPSHOTS = 'https://snapshot.debian.org/archive'
const MAX_BYTES = 1024 * 1024 * 1024

const hashOf = (algorithm: string, file: string, encoding: 'hex' | 'base64') =>
  createHash(algorithm).update(fs.readFileSync(file)).digest(encoding)

/** The packages of `path` are Debian's: its signed index named the checksum when it was locked. */
export async function readDebianPackage({ path, sha256 }: DebianPackage, lockedAt: string): Promise<ImageFile[]> {
  const file = join(CACHE, `${sha256}.deb`)
  if (!fs.existsSync(file)) {
    const [archive, ...rest] = path.split('/')
    const snapshot = lockedAt.replace(/\.\d+|[-:]/g, '')
    const urls = [`${MIRROR}/${path}`, `${SNAPSHOTS}/${archive}/${snapshot}/${rest.join('/')}`]
    fs.mkdirSync(CACHE, { recursive: true })
    const temporary = `${file}.${process.pid}`
    const curl = (url: string) => {
      try {
        execFileSync('curl', ['-fsSL', '--retry', '2', '-o', temporary, url], { stdio: ['ignore', 'ignore', 'pipe'] })
        return true
      } catch {
        return false
      }
    }
    if (!urls.some(curl))
      throw new Error(`No server has ${basename(path)}: ${urls.join(', ')}. Run \`npm run image:lock\`.`)
    fs.renameSync(temporary, file)
  }
  if (hashOf('sha256', file, 'hex') !== sha256) {
    fs.rmSync(file)
    throw new Error(`${basename(path)} does not have the checksum of lock.json.`)
  }
  const members = readAr(fs.readFileSync(file))
  const [control, data] = ['control.tar', 'data.tar'].map(name => members.find(member => member.name.startsWith(name)))
  if (!control || !data) throw new Error(`${basename(path)} is not a Debian package.`)
  const [controlFiles, dataFiles] = await Promise.all([control, data].map(member => unpackTar(decompress(member))))
  return [...toStatusFiles(controlFiles!), ...toImageFiles(dataFiles!)]
}

type Member = { name: string; bytes: Uint8Array }
function readAr(archive: Buffer): Member[] {
  const members: Member[] = []
  for (let start = 8; start + 60 <= archive.length; ) {
    const name = archive.toString('latin1', start, start + 16).trim()
    const size = Number(archive.toString('latin1', start + 48, start + 58))
    members.push({ name, bytes: archive.subarray(start + 60, start + 60 + size) })
    start += 60 + size + (size % 2)
  }
  return members
}

const PROGRAMS: Record<string, string> = { xz: 'xz', zst: 'zstd', gz: 'gzip' }
const decompress = ({ name, bytes }: Member): Uint8Array =>
  execFileSync(PROGRAMS[name.split('.').at(-1)!]!, ['-dc'], { input: bytes, maxBuffer: MAX_BYTES })

const decode = (entry?: ParsedTarEntryWithData) => new TextDecoder().decode(entry?.data)

/** Scanners for vulnerabilities read these: the same files as in Debian's images without a package manager. */
function toStatusFiles(entries: ParsedTarEntryWithData[]): ImageFile[] {
  const find = (name: string) => entries.find(({ header }) => header.name.replace('./', '') === name)
  const control = decode(find('control'))
  const name = /^Package: (.*)$/m.exec(control)?.[1]
  const encode = (text: string) => new TextEncoder().encode(text)
  const status = control.replace(/^Package: .*$/m, '$&\nStatus: install ok installed')
  return [{ path: `var/lib/dpkg/status.d/${name}`, mode: 0o644, body: encode(status) }]
}

/** Folders are left out: the images need none that is empty. */
function toImageFiles(entries: ParsedTarEntryWithData[]): ImageFile[] {
  return entries.flatMap(({ header, data }): ImageFile[] => {
    const path = header.name.replace(/^\.\//, '')
    if (header.type === 'symlink') return [{ path, link: header.linkname! }]
    if (header.type === 'link') throw new Error(`${path} is a hard link, which the build does not support.`)
    if (header.type !== 'file') return []
    // Neither owners nor set-user-id bits are kept: no file of the images needs them.
    return [{ path, mode: (header.mode ?? 0) & 0o111 ? 0o755 : 0o644, body: data ?? new Uint8Array() }]
  })
}

/** npm downloads it. Paths are those below `package/`. */
export async function readNpmPackage({ name, version, integrity }: NpmPackage): Promise<ImageFile[]> {
  const file = join(CACHE, `${name}-${version}.tgz`)
  if (!fs.existsSync(file)) {
    fs.mkdirSync(CACHE, { recursive: true })
    execFileSync('npm', ['pack', '--silent', `${name}@${version}`, '--pack-destination', CACHE], { stdio: 'pipe' })
  }
  if (`sha512-${hashOf('sha512', file, 'base64')}` !== integrity) {
    fs.rmSync(file)
    throw new Error(`${name}@${version} does not have the checksum of lock.json.`)
  }
  const files = toImageFiles(await unpackTar(gunzipSync(fs.readFileSync(file))))
  return files.map(found => ({ ...found, path: found.path.replace(/^package\//, '') }))
}
