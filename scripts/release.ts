// `npm run release -- rc|stable|patch|repackage`: writes the next version wherever one stands, the changelog, and what
// to do next. `npm run release -- images` then records the images that were built of it.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import {
  findFaults,
  KINDS,
  type Kind,
  next,
  type Release,
  Releases,
  renderChangelog,
  writeChartVersions,
} from '../deploy/releases/releases.ts'
import { arePicturesCurrent } from './picture-sources.ts'

const ROOT = process.env.RELEASE_ROOT ?? fileURLToPath(new URL('..', import.meta.url))
const USAGE = `npm run release -- rc|stable|patch|repackage [--change SENTENCE]… [--contract SENTENCE]…
  rc         the next release candidate of 0.X.0
  stable     0.X.0, after its release candidates
  patch      0.X.Y
  repackage  a new chart with the same application
npm run release -- images --slipway sha256:… --agent sha256:…
  Records the images that were built of the commit that is checked out.
npm run release -- changelog
  Writes CHANGELOG.md again, after releases.json was edited.`

const at = (path: string) => join(ROOT, path)
const read = (path: string) => readFileSync(at(path), 'utf8')
const write = (path: string, edit: (text: string) => string) => {
  writeFileSync(at(path), edit(existsSync(at(path)) ? read(path) : ''))
  console.log(`wrote ${relative(process.cwd(), at(path)) || path}`)
}
const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim()
const today = () => new Date().toISOString().slice(0, 10)

try {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      change: { type: 'string', multiple: true, default: [] },
      contract: { type: 'string', multiple: true, default: [] },
      slipway: { type: 'string' },
      agent: { type: 'string' },
    },
  })
  const [command] = positionals
  const releases = Releases.parse(JSON.parse(read('deploy/releases/releases.json')))
  if (command === 'changelog') writeReleases(releases)
  else if (command === 'images') recordImages(releases, { slipway: values.slipway, agent: values.agent })
  else if (KINDS.includes(command as Kind)) prepare(releases, command as Kind, values.change, values.contract)
  else throw new Error(USAGE)
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
}

function prepare(earlier: Release[], kind: Kind, changes: string[], contract: string[]): void {
  const newest = earlier[0]!
  const due = next(kind, newest)
  const isSameApp = due.app === newest.app
  const release: Release = {
    chart: due.chart,
    app: due.app,
    kind,
    date: today(),
    commit: isSameApp ? newest.commit : null,
    images: isSameApp ? newest.images : null,
    ...(due.repackages && { repackages: due.repackages }),
    changes,
    contract,
  }
  // The newest one was prepared and never published: it keeps the commit that it stands for.
  const before = newest.commit ? earlier : [{ ...newest, commit: git('rev-parse', 'HEAD') }, ...earlier.slice(1)]
  writeReleases([release, ...before])
  for (const path of ['package.json', 'package-lock.json']) write(path, text => writePackageVersion(text, due.app))
  write('src/kernel/version.ts', text => text.replace(/VERSION = '.*'/, `VERSION = '${due.app}'`))
  if (existsSync(at('deploy/chart/Chart.yaml'))) write('deploy/chart/Chart.yaml', text => writeChartVersions(text, due))
  if (!isSameApp && !arePicturesCurrent(ROOT))
    execFileSync(process.execPath, [at('scripts/screenshots.ts')], { cwd: ROOT, stdio: 'inherit' })
  console.log(
    isSameApp
      ? `\n${due.chart} packages ${due.app} again. Next: commit, tag v${due.chart}, and push the tag.`
      : `\n${due.chart} is prepared. Next: commit, run \`npm run check\`, \`npm test\` and \`npm run test:hosts\`, ` +
          'build the images with `npm run image`, and record them with `npm run release -- images`.',
  )
}

function recordImages(releases: Release[], images: { slipway: string | undefined; agent: string | undefined }): void {
  const [newest, ...before] = releases
  const isGiven = Object.values(images).every(digest => /^sha256:[0-9a-f]{64}$/.test(digest ?? ''))
  if (!isGiven) throw new Error(`Give the digests of both images.\n\n${USAGE}`)
  if (newest!.images) throw new Error(`${newest!.chart} has its images. Prepare another release: npm run release -- rc`)
  if (git('status', '--porcelain') !== '')
    throw new Error('There are changes that no commit has. Commit them, and build the images of that commit.')
  const release = { ...newest, date: today(), commit: git('rev-parse', 'HEAD'), images }
  writeReleases(Releases.parse([release, ...before]))
  console.log(`\nNext: commit, \`git tag v${newest!.chart}\`, and push the tag. The release workflow publishes it.`)
}

function writeReleases(releases: Release[]): void {
  const checked = Releases.parse(releases)
  const faults = findFaults(checked)
  if (faults.length > 0) throw new Error(faults.join('\n'))
  write('deploy/releases/releases.json', () => `${JSON.stringify(checked, null, 2)}\n`)
  write('CHANGELOG.md', () => renderChangelog(checked))
}

/** The first version of package.json, and the first two of package-lock.json. */
function writePackageVersion(text: string, version: string): string {
  const json = JSON.parse(text) as { version: string; packages?: Record<string, { version: string }> }
  json.version = version
  if (json.packages) json.packages['']!.version = version
  return `${JSON.stringify(json, null, 2)}\n`
}
