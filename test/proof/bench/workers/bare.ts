// The least that a Worker can do: a framework's overhead is measured against it.
export default {
  fetch: () => new Response('{"status":"ok"}', { headers: { 'Content-Type': 'application/json' } }),
}
