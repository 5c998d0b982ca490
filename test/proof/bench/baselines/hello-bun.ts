// Hono's hello world. Bun serves what the file exports.
import hello from '../workers/hello.ts'

export default { fetch: hello.fetch, port: Number(process.env.PORT), hostname: '127.0.0.1', development: false }
