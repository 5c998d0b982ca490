// The contents of the images, layer by layer. Layers that rarely change come first, so that an upgrade pulls little.
import type { ImageFile } from './layer.ts'
import { type Lock, type Platform, readLock } from './lock-packages.ts'
import { readDebianPackage, readNpmPackage } from './package-files.ts'

export const USER = 65532
const HOME = 'var/lib/slipway'

const text = (path: string, content: string): ImageFile => ({
  path,
  mode: 0o644,
  body: new TextEncoder().encode(content),
})

/** Licenses are kept. Manuals, translations, and parts that nothing here calls are not. */
const LEFT_OUT = new RegExp(
  '^(usr/share/(?!doc/|ca-certificates/|common-licenses/|git-core/)|usr/share/doc/(?!.*/copyright$)|' +
    'etc/(?!debian_version|os-release|ca-certificates|gnutls|ssl)|usr/lib/[^/]*/gconv/|usr/lib/systemd/|usr/sbin/|' +
    'usr/lib/git-core/git-(daemon|http-backend|http-fetch|http-push|imap-send|shell|sh-i18n|instaweb)|' +
    'usr/(bin|lib/git-core)/(scalar|git-shell)$|usr/bin/(tini-static|pinky|uptime|users|who)$|usr/lib/openssh/|' +
    'usr/bin/(scp|sftp|slogin|ssh-(add|agent|argv0|copy-id|keygen|keyscan))$)',
)

/** Every image has these beside its packages: its user, and the folders that it may write to. */
const OWN_FILES: ImageFile[] = [
  text(
    'etc/passwd',
    `root:x:0:0:root:/root:/usr/sbin/nologin\nslipway:x:${USER}:${USER}:Slipway:/${HOME}:/usr/sbin/nologin\n`,
  ),
  text('etc/group', `root:x:0:\nslipway:x:${USER}:\n`),
  text('etc/nsswitch.conf', 'passwd: files\ngroup: files\nhosts: files dns\n'),
  { path: 'tmp', folderMode: 0o1777 },
  { path: HOME, folderMode: 0o750, owner: USER },
]

async function readPackages(lock: Lock, group: 'libraries' | 'tools', platform: Platform): Promise<ImageFile[]> {
  const files: ImageFile[] = []
  for (const debian of lock[group][platform]) files.push(...(await readDebianPackage(debian, lock.time)))
  return files.filter(({ path }) => !LEFT_OUT.test(path))
}

/** Installers of Debian make this one file of the certificates, which are not needed beside it. */
function bundleCertificates(files: ImageFile[]): ImageFile[] {
  const isCertificate = ({ path }: ImageFile) => path.startsWith('usr/share/ca-certificates/')
  const bodies = files
    .filter(isCertificate)
    .sort((a, b) => (a.path < b.path ? -1 : 1))
    .map(file => ('body' in file ? Buffer.from(file.body).toString().trim() : ''))
  const bundle = text('etc/ssl/certs/ca-certificates.crt', `${bodies.join('\n')}\n`)
  return [...files.filter(file => !isCertificate(file)), bundle]
}

export async function listLibraries(platform: Platform, lock = readLock()): Promise<ImageFile[]> {
  return [...bundleCertificates(await readPackages(lock, 'libraries', platform)), ...OWN_FILES]
}

export async function listNode(platform: Platform, lock = readLock()): Promise<ImageFile[]> {
  const files = await readNpmPackage(lock.node[platform])
  const places: Record<string, string> = {
    'bin/node': 'usr/local/bin/node',
    LICENSE: 'usr/local/share/doc/node/LICENSE',
  }
  return files.flatMap(file => (places[file.path] ? [{ ...file, path: places[file.path]! }] : []))
}

/** Debian ships the same program twice. */
const linkSecondGit = (file: ImageFile): ImageFile =>
  file.path === 'usr/lib/git-core/git' ? { path: file.path, link: '../../bin/git' } : file

/** An agent needs these to fetch sources and to build applications of processes. */
export async function listTools(platform: Platform, lock = readLock()): Promise<ImageFile[]> {
  const debian = await readPackages(lock, 'tools', platform)
  const npm = (await readNpmPackage(lock.npm)).filter(({ path }) => !/^(docs|man|tap-snapshots|test)\//.test(path))
  const folder = 'usr/local/lib/node_modules/npm'
  const links = ['npm', 'npx'].map(name => ({
    path: `usr/local/bin/${name}`,
    link: `../lib/node_modules/npm/bin/${name}-cli.js`,
  }))
  const inFolder = npm.map(file => ({ ...file, path: `${folder}/${file.path}` }))
  return [...debian.map(linkSecondGit), ...inFolder, ...links]
}
