// `.node-version` has the one version of Node: of the workflows, of the tests, of the images. Programs may run on
// others.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readLock } from '../../deploy/images/lock-packages.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const pinned = read('.node-version').trim()
const manifest = JSON.parse(read('package.json'))

it('is exact, and the version that npm ci brings and that runs these tests', () => {
  expect(pinned).toMatch(/^\d+\.\d+\.\d+$/)
  expect(manifest.devDependencies.node).toBe(pinned)
  expect(process.versions.node).toBe(pinned)
})

it('is one that `engines` allows', () => {
  const [major, minor] = pinned.split('.').map(Number)
  const [, least] = / >=(\d+\.\d+)\.0$/.exec(manifest.engines.node)!
  const [leastMajor, leastMinor] = least!.split('.').map(Number)
  expect(major! > leastMajor! || (major === leastMajor && minor! >= leastMinor!)).toBe(true)
})

it('is the version in the images, and of the bases that the Dockerfile and its page name', () => {
  for (const { version } of Object.values(readLock().node)) expect(version).toBe(pinned)
  for (const file of ['deploy/images/Dockerfile', 'docs/operate/images.md'])
    for (const [, version] of read(file).matchAll(/node:(\d[\d.]*)-/g)) expect(version, file).toBe(pinned)
})

it('is what every workflow reads', () => {
  for (const file of readdirSync(join(ROOT, '.github/workflows'))) {
    const text = read(`.github/workflows/${file}`)
    expect(text, file).not.toContain('node-version:')
    expect(text.match(/node-version-file: \.node-version/g)?.length ?? 0, file).toBe(
      text.match(/actions\/setup-node@/g)?.length ?? 0,
    )
  }
})
