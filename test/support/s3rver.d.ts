declare module 's3rver' {
  import type { RequestListener } from 'node:http'

  type ListOptions = { delimiter?: string; prefix?: string }
  type Listed = { objects: { key: string }[]; commonPrefixes: string[]; isTruncated: boolean }
  export default class S3rver {
    constructor(options: { directory: string; silent: boolean; configureBuckets: { name: string }[] })
    configureBuckets(): Promise<void>
    callback(): RequestListener
    store: { listObjects(bucket: string, options: ListOptions): Promise<Listed> }
  }
}
