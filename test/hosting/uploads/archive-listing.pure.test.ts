import { gzipSync } from 'node:zlib'
import { packTar } from 'modern-tar'
import { expect, onTestFinished, test, vi } from 'vitest'
import { inspectArchive } from '../../../src/hosting/uploads/archive-inspection.ts'
import { listArchive } from '../../../src/hosting/uploads/archive-listing.ts'
import { packFiles } from '../../support/archives.ts'

const ROOM = { growTo: () => {}, release: () => {} }

async function list(archive: Uint8Array, room = ROOM as Parameters<typeof listArchive>[1]) {
  const listing = listArchive({}, room)
  await listing.write(archive)
  return listing.end()
}

test('a damaged or cut archive ends, and is not listed', async () => {
  const archive = await packFiles({ a: Array.from({ length: 20_000 }, (_, i) => (i * 7919) % 10_007).join() })
  expect(await list(archive.subarray(0, archive.length / 2))).toBeNull()
  expect(await list(archive.map((byte, i) => (i > 20_000 && i < 21_000 ? 7 : byte)))).toBeNull()
  const tar = await packTar([{ header: { name: 'a', size: 1 }, body: 'a' }])
  expect([...(await list(gzipSync(tar)))!.paths]).toEqual(['a'])
  expect(await list(gzipSync(tar.subarray(0, 1024)))).toBeNull()
})

test('an archive of many files with and without texts is listed', async () => {
  const noise = 'a'.repeat(10_000)
  const names = Array.from({ length: 600 }, (_, i) => (i % 3 === 0 ? `${i}.json` : `a/b/c/d/${i}.png`))
  const files = await list(await packFiles(Object.fromEntries(names.map((name, i) => [name, noise + i]))))
  expect(files?.paths.size).toBe(600)
  expect(files?.read('3.json')).toBe(`${noise}3`)
})

test('a path deeper or longer than agents accept is not listed', async () => {
  expect(await list(await packFiles({ [`${'a/'.repeat(63)}a`]: '' }))).not.toBeNull()
  expect(await list(await packFiles({ [`${'a/'.repeat(64)}a`]: '' }))).toBeNull()
  expect(await list(await packFiles({ ['a'.repeat(3001)]: '' }))).toBeNull()
})

test('an archive of very many folders is not listed', async () => {
  const names = Array.from({ length: 400 }, (_, i) => `${i}/${'a/'.repeat(60)}a`)
  expect(await list(await packFiles(Object.fromEntries(names.map(name => [name, '']))))).toBeNull()
})

test('a listing takes room as it grows, and an archive without room is not listed', async () => {
  const archive = await packFiles({ 'a.json': ' '.repeat(900_000), 'b.json': ' '.repeat(900_000) })
  let most = 0
  const roomOf = (limit: number) => ({
    growTo(size: number) {
      if (size > limit) throw new Error('There is no room')
      most = Math.max(most, size)
    },
    release: () => {},
  })
  expect((await list(archive, roomOf(4_000_000)))?.paths.size).toBe(2)
  expect(most).toBeGreaterThan(3_600_000)
  expect(await list(archive, roomOf(3_000_000))).toBeNull()
})

test('an upload ends before its room is given to others, also while the store is slow', async () => {
  const archive = await packFiles({ a: 'a' })
  const start = performance.now()
  const clock = vi.spyOn(performance, 'now')
  onTestFinished(() => clock.mockRestore())
  const receive = (minutes: number) => {
    clock.mockReturnValue(start)
    const write = async () => void clock.mockReturnValue(start + minutes * 60_000)
    const { stream } = inspectArchive(new Blob([archive]).stream(), null, { write, cancel: () => {} })
    return new Response(stream).bytes()
  }
  expect(await receive(40)).toEqual(archive)
  await expect(receive(55)).rejects.toMatchObject({ code: 'body_too_slow' })
})
