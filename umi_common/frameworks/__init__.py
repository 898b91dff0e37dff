"""Code that the adapters for LangChain and LlamaIndex share. No file here imports a framework.

records      convert records (text, metadata, id) to chunks and back
mirror       replace the stored chunks of a file or document
options      check the arguments of the adapters' classes
positions    choose positions of chunks that are added to a stored source
retrievers   base classes of retrievers and vector stores
scores       scores for the results of a framework's retriever or reranker
stages       ranking stages for the texts of any retriever
threads      asynchronous methods that call the synchronous ones in a thread
tools        an agent's search tool
unembedded   store messages without vectors while the embedder fails
"""
