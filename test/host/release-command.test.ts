// `npm run release` in a repository of its own: a candidate, its images, and a chart that packages it again.
import { execFileSync, spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { type Release, Releases } from '../../deploy/releases/releases.ts'

const ROOT = join(import.meta.dirname, '../..')

it('writes the next version wherever one stands, and refuses what breaks a rule', () => {
  const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-release-'))
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }))
  const write = (path: string, text: string) => {
    fs.mkdirSync(join(folder, path, '..'), { recursive: true })
    fs.writeFileSync(join(folder, path), text)
  }
  const read = (path: string) => fs.readFileSync(join(folder, path), 'utf8')
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args], { cwd: folder })
  const commit = () => {
    git('add', '--all')
    git('commit', '--quiet', '--message', 'Release')
  }
  const release = (...args: string[]) => {
    const env = { ...process.env, RELEASE_ROOT: folder }
    const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'scripts/release.ts'), ...args], { env })
    return [status, `${stderr}`] as const
  }
  const first: Release = {
    chart: '0.1.0',
    app: '0.1.0',
    kind: 'stable',
    date: '2026-11-22',
    commit: 'a'.repeat(40),
    images: null,
    changes: [],
    contract: [],
  }
  write('deploy/releases/releases.json', JSON.stringify([first]))
  write('package.json', '{"version": "0.1.0"}')
  write('package-lock.json', '{"version": "0.1.0", "packages": {"": {"version": "0.1.0"}}}')
  write('src/kernel/version.ts', "export const VERSION = '0.1.0'\n")
  write('deploy/chart/Chart.yaml', 'name: slipway\nversion: 0.1.0\nappVersion: 0.1.0\n')
  git('init', '--quiet')
  commit()

  expect(release('repackage')).toEqual([1, expect.stringContaining('was not published')])
  expect(release('rc', '--change', 'Something new.')).toEqual([0, ''])
  const images = ['--slipway', `sha256:${'b'.repeat(64)}`, '--agent', `sha256:${'c'.repeat(64)}`]
  expect(release('images', ...images)).toEqual([1, expect.stringContaining('no commit has')])
  commit()
  expect(release('images', ...images.slice(0, 2))[0]).toBe(1)
  expect(release('images', ...images)).toEqual([0, ''])
  expect(release('images', ...images)[0]).toBe(1)
  commit()
  expect(release('repackage', '--change', 'The chart is mended.')).toEqual([0, ''])

  const [again, candidate] = Releases.parse(JSON.parse(read('deploy/releases/releases.json')))
  expect(candidate).toMatchObject({ chart: '0.2.0-rc.1', app: '0.2.0-rc.1', changes: ['Something new.'] })
  expect(again).toMatchObject({ chart: '0.2.0-rc.2', app: '0.2.0-rc.1', repackages: '0.2.0-rc.1' })
  expect(again!.images).toEqual(candidate!.images)
  expect(JSON.parse(read('package-lock.json')).packages['']).toEqual({ version: '0.2.0-rc.1' })
  expect(read('src/kernel/version.ts')).toContain("'0.2.0-rc.1'")
  expect(read('deploy/chart/Chart.yaml')).toBe('name: slipway\nversion: 0.2.0-rc.2\nappVersion: 0.2.0-rc.1\n')
  expect(read('CHANGELOG.md')).toContain('the same as 0.2.0-rc.1')
})
