// The least that a Worker can do: what a framework's overhead is measured against.
export default {
  fetch: () => new Response('{"status":"ok"}', { headers: { 'Content-Type': 'application/json' } }),
}
