// The README's pictures of the dashboard exist, and a release notices when the dashboard has changed since.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { arePicturesCurrent, recordPictures } from '../../scripts/picture-sources.ts'

const ROOT = join(import.meta.dirname, '../..')

it('every picture of the README exists, and the digest of its sources is recorded', () => {
  const readme = fs.readFileSync(join(ROOT, 'README.md'), 'utf8')
  const pictures = [...readme.matchAll(/docs\/images\/[\w.-]+/g)].map(([path]) => path)
  expect(pictures).toHaveLength(5)
  for (const picture of pictures) expect(fs.existsSync(join(ROOT, picture)), picture).toBe(true)
  expect(fs.readFileSync(join(ROOT, 'docs/images/dashboard.sha256'), 'utf8')).toMatch(/^[0-9a-f]{64}\n$/)
})

it('pictures are out of date once the menu has changed', () => {
  const root = fs.mkdtempSync(join(tmpdir(), 'slipway-pictures-'))
  onTestFinished(() => fs.rmSync(root, { recursive: true }))
  fs.cpSync(join(ROOT, 'src/dashboard'), join(root, 'src/dashboard'), { recursive: true })
  expect(arePicturesCurrent(root), 'without pictures').toBe(true)
  fs.mkdirSync(join(root, 'docs/images'), { recursive: true })
  recordPictures(root)
  expect(arePicturesCurrent(root)).toBe(true)
  fs.appendFileSync(join(root, 'src/dashboard/screens/menu.ts'), '\n')
  expect(arePicturesCurrent(root)).toBe(false)
})
