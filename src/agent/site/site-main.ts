// A server of one site, as the program of an image: `node site-main.ts FOLDER` listens on PORT. Uses Node alone.
import * as http from 'node:http'
import { respondProblem } from '../system/problem-response.ts'
import { serveSite } from './serve-site.ts'
import { OpenSites } from './site-manifest.ts'

const [, , folder = ''] = process.argv
const BODY_MS = 60_000

const site = await new OpenSites().open(folder)
if (!site) {
  console.error(`The folder ${folder} has no site.`)
  process.exit(1)
}

const server = http.createServer({ requestTimeout: BODY_MS, keepAliveTimeout: 75_000 }, (req, res) => {
  // A site reads no body, and the connection serves its next request after it.
  req.resume()
  serveSite(req, res, site).then(
    isServed => isServed || respondProblem(res, 503, 'The files of the site are gone. Deploy it again.'),
    () => req.socket.destroy(),
  )
})
server.listen(Number(process.env.PORT))

process.once('SIGTERM', () => {
  server.close()
  server.closeIdleConnections()
})
