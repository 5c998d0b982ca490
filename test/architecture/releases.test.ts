// The releases of deploy/releases/releases.json keep their rules, and every place that has a version has the newest
// one.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  findChanged,
  findFaults,
  type Kind,
  next,
  type Release,
  Releases,
  renderChangelog,
  writeChartVersions,
} from '../../deploy/releases/releases.ts'
import { VERSION } from '../../src/kernel/version.ts'
import { compareVersions, parseVersion } from '../../src/protocol/versions.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const releases = Releases.parse(JSON.parse(read('deploy/releases/releases.json')))
const newest = releases[0]!

const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' }).trim()
/** Returns the reason why there is no history to compare with. A pipeline may have checked out one commit alone. */
function findHistoryObstacle(): string | undefined {
  if (!existsSync(join(ROOT, '.git'))) return 'this is no git repository'
  return git('rev-parse', '--is-shallow-repository') === 'true' ? 'the history is shallow' : undefined
}
const historyObstacle = findHistoryObstacle()

/** Earlier commits have the file elsewhere. */
const PATHS = ['deploy/releases/releases.json', 'distribution/releases.json']
function readReleasesOf(revision: string) {
  const [path] = git('ls-tree', '--name-only', revision, ...PATHS).split('\n')
  return Releases.parse(JSON.parse(git('show', `${revision}:${path}`)))
}

describe('releases.json', () => {
  it('keeps every rule', () => expect(findFaults(releases)).toEqual([]))

  it('has the version of the package, of the app and of the chart first', () => {
    expect(JSON.parse(read('package.json')).version).toBe(newest.app)
    const lock = JSON.parse(read('package-lock.json'))
    expect([lock.version, lock.packages[''].version]).toEqual([newest.app, newest.app])
    expect(VERSION).toBe(newest.app)
    const chart = join(ROOT, 'deploy/chart/Chart.yaml')
    if (existsSync(chart))
      expect(read('deploy/chart/Chart.yaml')).toBe(writeChartVersions(readFileSync(chart, 'utf8'), newest))
  })

  it('is what CHANGELOG.md was made from', () => expect(read('CHANGELOG.md')).toBe(renderChangelog(releases)))

  it('has every published release as it was when it was published', ({ skip }) => {
    skip(historyObstacle !== undefined, historyObstacle)
    const commits = git('log', '--format=%H', '--', ...PATHS).split('\n')
    expect(commits.length).toBeGreaterThan(9)
    for (const commit of commits) {
      const earlier = readReleasesOf(commit)
      expect(findChanged(releases, earlier), commit).toEqual([])
    }
  })

  it('has a release with images for every tag of a version', ({ skip }) => {
    skip(historyObstacle !== undefined, historyObstacle)
    const tags = git('tag', '--list', 'v0.*').split('\n').filter(Boolean)
    skip(tags.length === 0, 'no version has a tag')
    for (const tag of tags) {
      const tagged = readReleasesOf(tag)
      expect(`v${tagged[0]!.chart}`).toBe(tag)
      expect(tagged[0]!.images, tag).not.toBeNull()
      expect(findChanged(releases, tagged), tag).toEqual([])
    }
  })
})

const digest = (digit: string) => `sha256:${digit.repeat(64)}`
const imagesOf = (digit: string) => ({ slipway: digest(digit), agent: digest(digit) })
const release = (chart: string, kind: Kind, more: Partial<Release> = {}): Release => ({
  chart,
  app: chart,
  kind,
  date: '2026-11-24',
  commit: 'c'.repeat(40),
  images: imagesOf('a'),
  changes: [],
  contract: [],
  ...more,
})

describe('the next release', () => {
  it.each([
    ['rc', release('0.1.0', 'stable'), '0.2.0-rc.1', '0.2.0-rc.1'],
    ['rc', release('0.2.0-rc.9', 'rc'), '0.2.0-rc.10', '0.2.0-rc.10'],
    ['rc', release('0.2.0-rc.2', 'repackage', { app: '0.2.0-rc.1' }), '0.2.0-rc.3', '0.2.0-rc.2'],
    ['rc', release('0.2.3', 'patch', { app: '0.2.1' }), '0.3.0-rc.1', '0.3.0-rc.1'],
    ['stable', release('0.2.0-rc.3', 'rc', { app: '0.2.0-rc.2' }), '0.2.0', '0.2.0'],
    ['patch', release('0.2.0', 'stable'), '0.2.1', '0.2.1'],
    ['patch', release('0.2.1', 'repackage', { app: '0.2.0' }), '0.2.2', '0.2.1'],
    ['repackage', release('0.2.0', 'stable'), '0.2.1', '0.2.0'],
    ['repackage', release('0.2.0-rc.1', 'rc'), '0.2.0-rc.2', '0.2.0-rc.1'],
  ] as const)('kind %s after %o is chart %s with app %s', (kind, before, chart, app) => {
    expect(next(kind, before)).toEqual({
      chart,
      app,
      kind,
      ...(kind === 'repackage' && { repackages: before.chart }),
    })
  })

  it.each([
    ['stable', release('0.2.0', 'stable')],
    ['patch', release('0.2.0-rc.1', 'rc')],
    ['repackage', release('0.2.0', 'stable', { images: null })],
  ] as const)('kind %s is refused after %o', (kind, before) => {
    expect(() => next(kind, before)).toThrow(before.chart)
  })
})

describe('the rules of releases', () => {
  const candidate = release('0.2.0-rc.1', 'rc', { images: imagesOf('b') })
  const first = release('0.1.0', 'stable')

  it('are kept by a release candidate, its release, a patch and a chart that packages it again', () => {
    const stable = release('0.2.0', 'stable', { images: imagesOf('c'), contract: ['Something changes.'] })
    const again = release('0.2.1', 'repackage', { app: '0.2.0', images: imagesOf('c'), repackages: '0.2.0' })
    const patch = release('0.2.2', 'patch', { app: '0.2.1', images: imagesOf('d') })
    expect(findFaults([patch, again, stable, candidate, first])).toEqual([])
  })

  it.each<[string, Release[]]>([
    ['a version that does not rise', [release('0.1.0', 'patch', { images: imagesOf('b') }), candidate, first]],
    ['a version that is skipped', [release('0.2.0-rc.3', 'rc', { images: imagesOf('c') }), candidate, first]],
    ['an rc that is lower by its number', [release('0.2.0-rc.9', 'rc'), release('0.2.0-rc.10', 'rc')]],
    [
      'another image of the same app',
      [release('0.1.1', 'repackage', { app: '0.1.0', repackages: '0.1.0', images: imagesOf('b') }), first],
    ],
    ['the same image of another app', [release('0.1.1', 'patch'), first]],
    [
      'a patch that changes the contract',
      [release('0.1.1', 'patch', { images: imagesOf('b'), contract: ['X.'] }), first],
    ],
    [
      'a chart that changes the contract with the same app',
      [release('0.1.1', 'repackage', { app: '0.1.0', repackages: '0.1.0', contract: ['X.'] }), first],
    ],
    ['a repackaged chart that is not named', [release('0.1.1', 'repackage', { app: '0.1.0' }), first]],
    ['images without a commit', [release('0.1.0', 'stable', { commit: null })]],
    ['an earlier release without a commit', [candidate, release('0.1.0', 'stable', { images: null, commit: null })]],
  ])('refuse %s', (_, broken) => expect(findFaults(broken)).not.toEqual([]))

  it('let a release change until it is published', () => {
    const prepared = release('0.2.0-rc.1', 'rc', { images: null, commit: null })
    expect(findChanged([{ ...prepared, changes: ['More.'] }, first], [prepared, first])).toEqual([])
    expect(findChanged([{ ...candidate, changes: ['More.'] }, first], [candidate, first])).toHaveLength(1)
    expect(findChanged([first], [candidate, first])).toHaveLength(1)
  })

  it('order versions by numbers, and candidates before their release', () => {
    const rising = ['0.1.9', '0.2.0-rc.2', '0.2.0-rc.10', '0.2.0', '0.2.1', '0.10.0-rc.1', '0.10.0']
    const shuffled = [...rising].reverse().map(text => parseVersion(text)!)
    expect(shuffled.sort(compareVersions)).toEqual(rising.map(parseVersion))
    for (const text of ['1.0.0', '0.1', '0.01.0', '0.1.0-rc.0', '0.1.0-beta', 'v0.1.0', '0.1.0 '])
      expect(parseVersion(text), text).toBeUndefined()
  })
})
