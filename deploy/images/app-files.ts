// The files of Slipway itself, the same for every processor: npm packages without native parts, and this repository's.
// The Dockerfile copies what `node deploy/images/app-files.ts FOLDER` writes; build-image.ts packs the same files.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'fflate'
import { FIXED_TIME, type ImageFile, listEntries } from './layer.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FOLDER = 'app'

/** No program of an installation loads these: the command line, sources of bundles, other hosts. */
const LEFT_OUT =
  /^(src\/(cli\/|dashboard\/(?!served\/)|api-docs\/client\/|host\/(workers|deno|bun)\.ts$)|drizzle\/(meta\/\d+_snapshot\.json|config\.ts)$|dist\/server\/inputs\.json$)/
const SOURCES = ['src', 'drizzle', 'examples', 'dist/server', 'dist/dashboard/ui']
/** Node does not load these from packages: declarations, source maps, manuals, builds for another runtime. */
const LEFT_OUT_OF_PACKAGES =
  /^(\.bin|@types)\/|\.(d\.[cm]?ts|[cm]?ts|map|tsbuildinfo|flow|bare|yml|md)$|\/\.[^/]+$|^\.package-lock\.json$|\/prebuilds\//
const LICENSE = /\/(licen[cs]e|notice|copying)[^/]*$/i

function listFolder(folder: string, path = ''): string[] {
  return fs.readdirSync(join(folder, path), { withFileTypes: true }).flatMap(entry => {
    const name = path ? `${path}/${entry.name}` : entry.name
    return entry.isDirectory() ? listFolder(folder, name) : entry.isFile() ? [name] : []
  })
}

/** The umask of who checked out or installed the files does not count. */
const readImageFile = (folder: string, name: string, path: string): ImageFile => {
  const file = join(folder, name)
  return { path, mode: fs.statSync(file).mode & 0o100 ? 0o755 : 0o644, body: fs.readFileSync(file) }
}

export function listSources(root = ROOT, sources = SOURCES): ImageFile[] {
  const names = sources.flatMap(source => listFolder(join(root, source)).map(name => `${source}/${name}`))
  const files = names.filter(name => !LEFT_OUT.test(name)).map(name => readImageFile(root, name, `${FOLDER}/${name}`))
  return [...files.map(recompress), readImageFile(root, 'LICENSE', `${FOLDER}/LICENSE`), describePackage(root)]

  function recompress(file: ImageFile): ImageFile {
    if (!file.path.endsWith('.gz')) return file
    const original = fs.readFileSync(join(root, file.path.slice(FOLDER.length + 1, -'.gz'.length)))
    return { path: file.path, mode: 0o644, body: gzipSync(original, { level: 9, mtime: 0 }) }
  }
}

/** Without scripts and development dependencies, none of which are in the image. */
function describePackage(root: string): ImageFile {
  const { name, version, license, type, engines, dependencies } = JSON.parse(
    fs.readFileSync(join(root, 'package.json'), 'utf8'),
  )
  const manifest = { name, version, private: true, license, type, engines, dependencies }
  return {
    path: `${FOLDER}/package.json`,
    mode: 0o644,
    body: new TextEncoder().encode(`${JSON.stringify(manifest, null, 2)}\n`),
  }
}

/** Installed by npm from package-lock.json, which has the checksum of each. */
export function listModules(root = ROOT): ImageFile[] {
  const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-modules-'))
  try {
    for (const name of ['package.json', 'package-lock.json']) fs.copyFileSync(join(root, name), join(folder, name))
    const options = [
      '--omit=dev',
      '--ignore-scripts',
      '--no-audit',
      '--no-fund',
      '--prefer-offline',
      '--loglevel=error',
    ]
    execFileSync('npm', ['ci', ...options], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
    const modules = join(folder, 'node_modules')
    return listFolder(modules)
      .filter(name => LICENSE.test(name) || !LEFT_OUT_OF_PACKAGES.test(name))
      .map(name => ({ ...readImageFile(modules, name, `${FOLDER}/node_modules/${name}`), mode: 0o644 }))
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

/** The time of the commit, so that the same commit is the same image, and browsers see that files have changed. */
export function readCommitTime(root = ROOT): Date {
  const seconds =
    process.env.SOURCE_DATE_EPOCH || execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: root, encoding: 'utf8' })
  if (!/^\d+\s*$/.test(seconds)) throw new Error(`SOURCE_DATE_EPOCH ${seconds} is not a number of seconds.`)
  return new Date(Number(seconds) * 1000)
}

function writeFiles(folder: string, files: ImageFile[], time: Date): void {
  const entries = listEntries(files)
  for (const file of entries) {
    const path = join(folder, file.path)
    if (!('body' in file)) continue
    fs.mkdirSync(dirname(path), { recursive: true })
    fs.writeFileSync(path, file.body)
    fs.chmodSync(path, file.mode)
    fs.utimesSync(path, time, time)
  }
  for (const { path } of entries.filter(file => 'folderMode' in file).reverse()) {
    fs.chmodSync(join(folder, path), 0o755)
    fs.utimesSync(join(folder, path), time, time)
  }
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2)
  if (!folder) throw new Error('Name the folder that the files are written to.')
  writeFiles(join(folder, 'modules'), listModules(), FIXED_TIME)
  writeFiles(join(folder, 'app'), listSources(), readCommitTime())
  fs.mkdirSync(join(folder, 'home'), { mode: 0o750 })
}
