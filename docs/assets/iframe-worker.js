// Browsers start no worker from a page that was opened from the disk, and the search of this site is a worker. There a
// hidden frame runs the worker's script instead, and messages go both ways. On a served site nothing is changed.
"use strict"
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.deliver = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = `<script src="${new URL(url, location.href)}"></` + "script>"
      frame.srcdoc = "<script>var postMessage = (data) => frameElement.deliver(data)</" + "script>" + script
      this.ready = new Promise((resolve) => frame.addEventListener("load", () => resolve(frame.contentWindow)))
      document.body.append(frame)
    }
    async postMessage(data) {
      const inside = await this.ready
      inside.dispatchEvent(new MessageEvent("message", { data }))
    }
  }
}
