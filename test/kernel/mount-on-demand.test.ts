// Slices are imported when a request needs them first, and no answer depends on which were imported earlier.
import { Hono } from 'hono'
import { describe, expect, it } from 'vitest'
import { slices } from '../../src/app.ts'
import { beginsWith, mountOnDemand } from '../../src/kernel/http/mount-on-demand.ts'
import { listOperations } from '../../src/kernel/http/routes.ts'
import { SegmentRouter } from '../../src/kernel/http/segment-router.ts'

describe('a slice of the app', () => {
  it.each(Object.entries<() => Promise<object>>(slices))('serves %s, and nothing else', async (line, load) => {
    const starts = line.split(' ').map(start => start.split('/'))
    const served = listOperations(await load()).map(({ path }) => path.replace(/\{\w+\}/g, 'any').split('/'))
    expect(served.filter(path => !starts.some(start => beginsWith(path, start)))).toEqual([])
    expect(starts.filter(start => !served.some(path => beginsWith(path, start)))).toEqual([])
  })
})

describe('a part that is mounted on demand', () => {
  const createApp = (parts: Record<string, () => Promise<void>>) => {
    const app = new Hono({ router: new SegmentRouter() })
    mountOnDemand(
      app,
      Object.entries(parts).map(([starts, mount]) => ({ starts: starts.split(' '), mount })),
      error => new Hono().all('*', c => c.text(String(error), 500)),
    )
    return { app, get: async (path: string) => (await app.request(path)).status }
  }

  it('is mounted once, by the first requests to its paths', async () => {
    const mounted: string[] = []
    const { app, get } = createApp({
      '/a /b/*/c': async () => {
        await Promise.resolve()
        mounted.push('a')
        app.get('/a/:id', c => c.text(''))
        app.get('/b/:id/c', c => c.text(''))
      },
      '/b': async () => void mounted.push('b'),
    })
    for (const path of ['/', '/ab', '/c/a', '/b-c']) expect(await get(path)).toBe(404)
    expect(mounted).toEqual([])
    expect(await Promise.all([get('/a/1'), get('/a/2'), get('/a')])).toEqual([200, 200, 404])
    expect(mounted).toEqual(['a'])
    expect(await get('/b/1/c')).toBe(200)
    expect(mounted).toEqual(['a', 'b'])
  })

  it('wins over a parameter of a part that was mounted earlier', async () => {
    const { app, get } = createApp({
      '/runs': async () => void app.get('/runs/:id', c => c.text('', 202)),
      '/runs/rules': async () => void app.get('/runs/rules', c => c.text('', 203)),
    })
    expect([await get('/runs/1'), await get('/runs/rules'), await get('/runs/1')]).toEqual([202, 203, 202])
  })

  it('is tried again if it failed', async () => {
    let attempts = 0
    const { app, get } = createApp({
      '/a': async () => {
        if (++attempts === 1) throw new Error('not now')
        app.get('/a', c => c.text(''))
      },
    })
    expect(await Promise.all([get('/a'), get('/a')])).toEqual([500, 500])
    expect([await get('/a'), attempts]).toEqual([200, 2])
  })
})
