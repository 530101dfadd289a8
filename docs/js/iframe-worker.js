// Lets the search work in a folder: browsers start no worker from a file, so its script runs in a hidden frame.
"use strict";
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const { contentWindow: inside, contentDocument: page } = this.frame;
      const script = page.createElement("script");
      this.ready = new Promise((resolve) => script.addEventListener("load", resolve));
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      script.src = address;
      page.body.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
