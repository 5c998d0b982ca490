// The options of a deploy that ask for stores, beside what a deployment has.
import { expect, it } from 'vitest'
import { readStoreFlags } from '../../src/cli/store-flags.ts'

it('a disk that is named again keeps what the option does not say', () => {
  const persistentVolumeClaim = { claimName: 'files', storage_gi: 50, access_mode: 'ReadWriteOncePod' }
  const resource_spec = {
    volumes: [{ name: 'media', persistentVolumeClaim }],
    volume_mounts: [{ name: 'media', mountPath: '/app/media' }],
  }
  const read = (disk: string) => readStoreFlags({ disk: [disk] }, { source_config: { resource_spec } } as never)
  expect(read('media=/app/media')).toEqual(resource_spec)
  expect(read('media=/app/other:60')).toEqual({
    volumes: [{ name: 'media', persistentVolumeClaim: { ...persistentVolumeClaim, storage_gi: 60 } }],
    volume_mounts: [{ name: 'media', mountPath: '/app/other' }],
  })
})
