# cluster_build.cmake - writes a digest of files into a header: what two builds' processes say to each other is the same if it is the same.
#
#   cmake -DFILES=FILE;... -DOUT=cluster_build.h -P cluster_build.cmake
set(all "")
foreach(file ${FILES})
  file(SHA256 ${file} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 12 digest)
file(WRITE ${OUT} "#define CLUSTER_BUILD \"${digest}\"\n")
